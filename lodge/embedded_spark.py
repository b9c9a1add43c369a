"""The local Spark Connect server of the embedded default, from the installed PySpark.

Guarantees:

1. It listens on the loopback interface only, on a port that the system chose.
2. It dies with this process, whatever ends it (:mod:`lodge.children`).
3. All that it writes of its own lies in a private directory that is gone after it stopped; nothing is written
   to the directory that ``lodge`` was started in. Relative paths in statements lead to the private directory.
4. Settings of another Spark in the environment (``SPARK_…``, ``PYSPARK_…``) do not reach it.

Its log is in the private directory too, and is saved from there if it fails.
"""

import asyncio
import importlib.util
import os
import re
import shutil
import sys
import tempfile
import time
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import structlog

from lodge.children import start_child, stop_child
from lodge.errors import StartError
from lodge.java import require_java
from lodge.scratch import scratch_directory

_START_SECONDS = 120
_STOP_SECONDS = 30
_POLL_SECONDS = 0.1
_TAIL_BYTES = 3000
_STARTED = re.compile(rb"Spark Connect server started at: (\S+):(\d+)")
_MAX_SOCKET_DIRECTORY = 55  # what is left of the 107 bytes of a socket's path, less Spark's name for it
_FOREIGN = ("SPARK_", "PYSPARK_", "LODGE_")

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class EmbeddedSpark:
    """A local Spark Connect server that is ready.

    Attributes:
        address: ``sc://127.0.0.1:PORT``.
        process: Its Java process.
        log_file: In the private directory; gone when it has stopped.
    """

    address: str
    process: Process
    log_file: Path

    @property
    def pid(self) -> int:
        return self.process.pid

    async def watch(self) -> None:
        """Waits for as long as it runs.

        Raises: StartError when it stopped.
        """
        status = await self.process.wait()
        raise _failure(f"The local Spark stopped with exit status {status}", self.log_file)


@asynccontextmanager
async def start_spark(driver_memory: str, max_message_bytes: int) -> AsyncIterator[EmbeddedSpark]:
    """Runs Spark for the time of the block; to be entered in the main thread.

    Args:
        driver_memory: As Spark writes it, such as ``2g``.
        max_message_bytes: The largest message that it takes.

    Raises: StartError if there is no Java, or Spark does not start.
    """
    java = await asyncio.to_thread(require_java)
    with scratch_directory() as directory:
        log_file = directory / "spark.log"
        _log.info("embedded_spark_starting", log_file=str(log_file))
        begun_seconds = time.monotonic()
        process = await _start(java, directory, log_file, _options(directory, driver_memory, max_message_bytes))
        try:
            address = await _address(process, log_file)
            seconds = round(time.monotonic() - begun_seconds, 1)
            _log.info("embedded_spark_started", address=address, pid=process.pid, seconds=seconds)
            yield EmbeddedSpark(address, process, log_file)
        finally:
            await stop_child(process, _STOP_SECONDS)
            _log.info("embedded_spark_stopped", pid=process.pid)


@contextmanager
def embedded_spark(driver_memory: str, max_message_bytes: int = 128 * 1024 * 1024) -> Iterator[EmbeddedSpark]:
    """As :func:`started_spark`, for programs without an event loop."""
    with asyncio.Runner() as runner:
        manager = start_spark(driver_memory, max_message_bytes)
        spark = runner.run(manager.__aenter__())
        try:
            yield spark
        finally:
            runner.run(manager.__aexit__(None, None, None))


async def _start(java: Path, directory: Path, log_file: Path, options: Mapping[str, str]) -> Process:
    home = _package_directory("pyspark")
    command = [str(home / "bin" / "spark-submit"), "--master", "local[*]"]
    for name, value in options.items():
        command += ["--conf", f"{name}={value}"]
    command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"]
    (directory / "tmp").mkdir()
    (directory / "conf").mkdir()
    with log_file.open("wb") as output:
        return await start_child(
            command, environment=_environment(java, home, directory), directory=directory, output=output
        )


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
        # Over TCP, each task with Python waits twice 40 ms for its worker.
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
    """Where a package lies, found without importing it.

    Spark looks for data sources in the directories of the Python path only, so it has to be told of packages
    that are installed in another way, such as editable ones.
    """
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise StartError(f"The Python package [{package}] is missing. Install spark-lodge anew.")
    return Path(spec.origin).parent


async def _address(process: Process, log_file: Path) -> str:
    """Waits until Spark says where it listens, and can be reached there."""
    try:
        async with asyncio.timeout(_START_SECONDS):
            while (started := _started(log_file)) is None:
                if process.returncode is not None:
                    raise _failure(
                        f"The local Spark stopped while it started, with exit status {process.returncode}",
                        log_file,
                    )
                await asyncio.sleep(_POLL_SECONDS)
            port = int(started[2])
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.close()
            return f"sc://127.0.0.1:{port}"
    except (TimeoutError, OSError) as error:
        raise _failure(f"The local Spark was not ready after {_START_SECONDS} s ({error!r})", log_file) from None


def _started(log_file: Path) -> "re.Match[bytes] | None":
    return _STARTED.search(log_file.read_bytes())


def _failure(what: str, log_file: Path) -> StartError:
    """Saves the log from the private directory, and names it."""
    descriptor, saved = tempfile.mkstemp(prefix="lodge-spark-", suffix=".log")
    os.close(descriptor)
    shutil.copyfile(log_file, saved)
    tail = Path(saved).read_bytes()[-_TAIL_BYTES:].decode(errors="replace").strip()
    return StartError(f"{what}. Its log is [{saved}] and ends:\n{tail}")
