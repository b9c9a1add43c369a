"""A local Spark Connect server for ``lodge serve`` without ``--backend``.

The server comes from the installed PySpark.

Guarantees:

1. The server listens only on the loopback interface, on a port that the operating system chooses.
2. The server ends when this process ends, for any reason (:mod:`lodge.children`).
3. The server keeps its own files in a private directory, which is removed after the server has stopped. The server
   does not write to the directory in which ``lodge`` was started. Relative paths in SQL statements are relative to the
   private directory.
4. The server does not inherit environment variables for another Spark installation (``SPARK_…``, ``PYSPARK_…``).
5. With a token, the server refuses all calls without this token. Therefore, other users of the machine cannot bypass
   Lodge. The token is passed in an environment variable, which other users cannot read.

The private directory also contains the server's log. If the server fails, a copy of the log is kept.
"""

import importlib.util
import os
import re
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from subprocess import Popen

import structlog

from lodge.children import start_child, stop_child
from lodge.command_errors import StartError
from lodge.java import require_java
from lodge.scratch import scratch_directory

_START_SECONDS = 120
_STOP_SECONDS = 30
_CONNECT_SECONDS = 30.0
_POLL_SECONDS = 0.1
_TAIL_BYTES = 3000
_STARTED = re.compile(rb"Spark Connect server started at: (\S+):(\d+)")
_MAX_SOCKET_DIRECTORY = 55  # a socket path has at most 107 bytes, and Spark's file name needs the rest
_TOKEN_VARIABLE = "SPARK_CONNECT_AUTHENTICATE_TOKEN"  # noqa: S105 - the name of a variable
_FOREIGN = ("SPARK_", "PYSPARK_", "LODGE_")

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class EmbeddedSpark:
    """A local Spark Connect server that accepts connections.

    Attributes:
        address: The address of the server, in the form ``sc://127.0.0.1:PORT``.
        process: The Java process of the server.
        log_file: The server's log file in the private directory.
    """

    address: str
    process: "Popen[bytes]"
    log_file: Path

    @property
    def pid(self) -> int:
        return self.process.pid

    def require_running(self) -> None:
        """Check that the server still runs.

        Raises:
            StartError: If the server has stopped.
        """
        status = self.process.poll()
        if status is not None:
            raise _failure(f"The local Spark server stopped with exit status {status}", self.log_file)


class StoppedError(Exception):
    """Raised if the start of the server is no longer wanted."""


@contextmanager
def embedded_spark(
    driver_memory: str,
    max_message_bytes: int = 128 * 1024 * 1024,
    token: str = "",
    is_stopping: Callable[[], bool] = lambda: False,
) -> Iterator[EmbeddedSpark]:
    """Run a local Spark Connect server for the duration of the block.

    Enter the context manager in the main thread; see :mod:`lodge.children`.

    Args:
        driver_memory: The memory of the Spark driver, in Spark's notation, for example ``2g``.
        max_message_bytes: The maximum size of a message that the server accepts.
        token: The token that clients must send. Without a token, the server accepts all calls.
        is_stopping: Returns whether the start is no longer wanted.

    Yields:
        The server, which accepts connections.

    Raises:
        StartError: If Java is not installed or Spark does not start.
        StoppedError: If the start is no longer wanted.
    """
    java = require_java()
    with scratch_directory() as directory:
        log_file = directory / "spark.log"
        _log.info("embedded_spark_starting", log_file=str(log_file))
        begun_seconds = time.monotonic()
        options = _options(directory, driver_memory, max_message_bytes)
        process = _start(java, directory, log_file, options, token)
        try:
            address = _wait_for_address(process, log_file, is_stopping)
            seconds = round(time.monotonic() - begun_seconds, 1)
            _log.info("embedded_spark_started", address=address, pid=process.pid, seconds=seconds)
            yield EmbeddedSpark(address, process, log_file)
        finally:
            stop_child(process, _STOP_SECONDS)
            _log.info("embedded_spark_stopped", pid=process.pid)


def _start(java: Path, directory: Path, log_file: Path, options: Mapping[str, str], token: str) -> "Popen[bytes]":
    home = link_spark(_package_directory("pyspark"), directory / "spark")
    command = [str(home / "bin" / "spark-submit"), "--master", "local[*]"]
    for name, value in options.items():
        command += ["--conf", f"{name}={value}"]
    command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"]
    (directory / "tmp").mkdir()
    (directory / "conf").mkdir()
    environment = {**_environment(java, home, directory), **({_TOKEN_VARIABLE: token} if token else {})}
    with log_file.open("wb") as output:
        return start_child(command, environment=environment, directory=directory, output=output)


def link_spark(package: Path, home: Path) -> Path:
    """Create a directory of Spark without ``pyspark.zip``, and return it.

    Spark's Python processes import PySpark from this file if it exists, and otherwise from the installed package. The
    file contains no compiled modules, so each process would need half a second more. The first scan of a session starts
    three such processes, one after another.

    Args:
        package: The directory of the installed PySpark.
        home: The directory to create.
    """
    home.mkdir()
    for name in ("bin", "jars"):
        (home / name).symlink_to(package / name)
    return home


def _options(directory: Path, driver_memory: str, max_message_bytes: int) -> Mapping[str, str]:
    return {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": "0",
        "spark.connect.grpc.maxInboundMessageSize": str(max_message_bytes),
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": f'"-Djava.io.tmpdir={directory / "tmp"}"',
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": driver_memory,
        "spark.local.dir": str(directory / "tmp"),
        # Over TCP, each Python task waits 40 ms for its worker, twice.
        "spark.python.unix.domain.socket.dir": str(directory / "tmp"),
        "spark.python.unix.domain.socket.enabled": str(len(str(directory)) <= _MAX_SOCKET_DIRECTORY).lower(),
        "spark.sql.python.filterPushdown.enabled": "true",
        "spark.sql.warehouse.dir": (directory / "warehouse").as_uri(),
        "spark.ui.enabled": "false",
    }


def _environment(java: Path, home: Path, directory: Path) -> Mapping[str, str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(_FOREIGN)}
    python_path = [str(_package_directory("pyspark_lodge").parent), inherited.get("PYTHONPATH", "")]
    return inherited | {
        "PATH": os.pathsep.join([str(java.parent), inherited.get("PATH", os.defpath)]),
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join(filter(None, python_path)),
        "SPARK_CONF_DIR": str(directory / "conf"),
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "TMPDIR": str(directory / "tmp"),
    }


def _package_directory(package: str) -> Path:
    """Return the directory of a package without importing it.

    Spark finds Python data sources only in directories on the Python path. Packages with another kind of installation,
    for example editable installations, are found only if their directory is added to the path.
    """
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise StartError(f"The Python package [{package}] is not installed. Install spark-lodge again.")
    return Path(spec.origin).parent


def _wait_for_address(process: "Popen[bytes]", log_file: Path, is_stopping: Callable[[], bool]) -> str:
    """Wait until the server accepts connections, and return the server's address."""
    end_seconds = time.monotonic() + _START_SECONDS
    while (started := _find_address(log_file)) is None:
        if is_stopping():
            raise StoppedError
        if (status := process.poll()) is not None:
            raise _failure(f"The local Spark server stopped during startup with exit status {status}", log_file)
        if time.monotonic() > end_seconds:
            raise _failure(f"The local Spark server was not ready after {_START_SECONDS} seconds", log_file)
        time.sleep(_POLL_SECONDS)
    port = int(started[2])
    try:
        socket.create_connection(("127.0.0.1", port), _CONNECT_SECONDS).close()
    except OSError as error:
        raise _failure(f"The local Spark server does not accept connections ({error!r})", log_file) from None
    return f"sc://127.0.0.1:{port}"


def _find_address(log_file: Path) -> "re.Match[bytes] | None":
    return _STARTED.search(log_file.read_bytes())


def _failure(what: str, log_file: Path) -> StartError:
    """Copy the log out of the private directory and return an error with the copy's path."""
    descriptor, saved = tempfile.mkstemp(prefix="lodge-spark-", suffix=".log")
    os.close(descriptor)
    shutil.copyfile(log_file, saved)
    tail = Path(saved).read_bytes()[-_TAIL_BYTES:].decode(errors="replace").strip()
    return StartError(f"{what}. Its log was saved as [{saved}]. The log ends with:\n{tail}")
