"""The local Spark Connect server of the embedded default, from the installed PySpark.

Why it exists: with no configuration at all, ``lodge serve`` must give a working ``sc://`` address. The server listens
on loopback only, and everything it writes lies in a private directory that goes with it.
"""

import contextlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import structlog
import tenacity

from lodge.children import start_child, stop_child

_MIN_JAVA = 17
_READY_SECONDS = 120.0
_STOP_SECONDS = 20.0
_LOG_TAIL_LINES = 15
_STARTED = re.compile(r"SparkConnectService' on port (\d+)")

log = structlog.get_logger(__name__)


class EmbeddedSparkError(Exception):
    """The local Spark Connect server cannot be started; the message is for the user."""


class _NotReadyError(Exception):
    pass


class EmbeddedSpark:
    """A running local Spark Connect server.

    Attributes:
        address: ``sc://127.0.0.1:port``.
    """

    def __init__(self, process: subprocess.Popen[bytes], directory: Path) -> None:
        self._process = process
        self._log_file = directory / "spark.log"
        self.address = ""

    @property
    def exit_code(self) -> int | None:
        return self._process.poll()

    def log_tail(self) -> str:
        lines = self._log_file.read_text(errors="replace").splitlines()
        return "\n".join(lines[-_LOG_TAIL_LINES:])

    def wait_until_ready(self) -> None:
        """Raises: EmbeddedSparkError if it ends, or is not ready in time."""
        ready = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(_NotReadyError),
            wait=tenacity.wait_fixed(0.1),
            stop=tenacity.stop_after_delay(_READY_SECONDS),
            reraise=True,
        )
        try:
            self.address = f"sc://127.0.0.1:{ready(self._port)}"
        except _NotReadyError:
            raise EmbeddedSparkError(
                f"the local Spark Connect server was not ready after {_READY_SECONDS:.0f} s; its log ends:\n"
                f"{self.log_tail()}"
            ) from None

    def _port(self) -> int:
        code = self._process.poll()
        if code is not None:
            raise EmbeddedSparkError(
                f"the local Spark Connect server ended with status {code}; its log ends:\n{self.log_tail()}"
            )
        found = _STARTED.search(self._log_file.read_text(errors="replace"))
        if found is None:
            raise _NotReadyError
        return int(found.group(1))


@contextlib.contextmanager
def embedded_spark(driver_memory: str) -> Iterator[EmbeddedSpark]:
    """Starts a local Spark Connect server, and stops it in the end with everything that it wrote.

    Args:
        driver_memory: As Spark writes it, such as ``2g``.

    Raises: EmbeddedSparkError.
    """
    _check_java()
    directory = Path(tempfile.mkdtemp(prefix="lodge-spark-"))
    begun_seconds = time.monotonic()
    log.info("spark_starting", log_file=str(directory / "spark.log"))
    try:
        with (directory / "spark.log").open("wb") as output:
            process = start_child(
                _command(directory, driver_memory),
                environment=_environment(directory),
                directory=directory,
                output=output.fileno(),
            )
        try:
            spark = EmbeddedSpark(process, directory)
            spark.wait_until_ready()
            log.info("spark_started", backend=spark.address, seconds=round(time.monotonic() - begun_seconds, 1))
            yield spark
        finally:
            stop_child(process, _STOP_SECONDS)
            log.info("spark_stopped")
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _command(directory: Path, driver_memory: str) -> list[str]:
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": "0",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.extraJavaOptions": f"-Djava.io.tmpdir={directory} -Dderby.system.home={directory}",
        "spark.local.dir": str(directory),
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.ui.enabled": "false",
    }
    pyspark = _package_directory("pyspark")
    return [
        str(pyspark / "bin" / "spark-submit"),
        "--class",
        "org.apache.spark.sql.connect.service.SparkConnectServer",
        "--master",
        "local[*]",
        "--driver-memory",
        driver_memory,
        *(part for key, value in settings.items() for part in ("--conf", f"{key}={value}")),
        "spark-internal",
    ]


def _environment(directory: Path) -> dict[str, str]:
    """Spark's Python workers run this Python, and find the engine's data source beside this package."""
    found = [str(_package_directory("pyspark_lodge").parent), os.environ.get("PYTHONPATH", "")]
    return {
        **{key: value for key, value in os.environ.items() if not key.startswith(("SPARK_", "LODGE_"))},
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join(each for each in found if each),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(directory),
    }


def _package_directory(name: str) -> Path:
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        raise EmbeddedSparkError(f"the package {name} is not installed")
    return Path(spec.origin).parent


def _check_java() -> None:
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else "java"
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, check=True).stderr
    except (OSError, subprocess.CalledProcessError):
        raise EmbeddedSparkError(
            f"Java {_MIN_JAVA} or later is needed for the local Spark, and [{java}] does not run; "
            "install it, set JAVA_HOME, or name a backend with --backend sc://HOST:PORT"
        ) from None
    version = re.search(r'version "(\d+)', said)
    if version is None or int(version.group(1)) < _MIN_JAVA:
        raise EmbeddedSparkError(
            f"Java {_MIN_JAVA} or later is needed for the local Spark, and [{java}] is "
            f"{said.splitlines()[0] if said else 'unknown'}; set JAVA_HOME to a later one"
        )
