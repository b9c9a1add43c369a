"""A Spark standalone cluster on this machine: a master, two workers, and a Spark Connect server.

All programs come from the installed PySpark. They listen only on the loopback interface, on free ports. A worker has
one core, so two tasks that run at the same time run on two executors.

A worker and its executor are in one process group. Tests kill or pause both at once, like a node that fails.
"""

import os
import re
import signal
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.processes import Process
from tests.conftest import (
    SPARK_ENVIRONMENT,
    SparkProcess,
    create_archive,
    end,
    start_spark_process,
)
from tests.quick_java import QUICK_JAVA_OPTIONS
from tests.spark_home import class_archive, shared_home

WORKERS = 2
WORKER_MEMORY_MB = 1024
EXECUTOR_MEMORY_MB = 512

HEARTBEAT_SECONDS = 2
SILENCE_SECONDS = 20
"""How long an executor may be silent before the driver runs its tasks again. A busy machine must stay below."""

_MASTER_STARTED = re.compile(r"Starting Spark master at (spark://\S+)")
_WORKER_REGISTERED = "Successfully registered with master"
_EXECUTOR_REGISTERED = "Successfully registered with driver"


class Worker:
    """A worker of the cluster, with its executor.

    Args:
        master: The address of the master.
        directory: The directory for its log. Its executors run below its subdirectory ``work``.
    """

    def __init__(self, master: str, directory: Path) -> None:
        self.work = directory / "work"
        self._log = directory / "worker.log"
        self._starts = 0
        limits = ["--cores", "1", "--memory", f"{WORKER_MEMORY_MB}m", "--work-dir", str(self.work)]
        self._process = Process(
            _command("org.apache.spark.deploy.worker.Worker", *limits, master),
            self._log,
            is_ready=self._is_registered,
            environment=_environment() | {"SPARK_LOCAL_DIRS": str(directory)},
        )

    def start(self) -> None:
        self._starts += 1
        self._process.start()

    def kill(self) -> None:
        """Kill the worker and its executor at once. Does nothing if they do not run."""
        if self._process.is_running():
            self._signal(signal.SIGKILL)
        self._process.kill()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Pause the worker and its executor for the duration of the context."""
        self._signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._signal(signal.SIGCONT)

    def executor_logs(self) -> str:
        """Return the logs of all executors that the worker has started."""
        return "".join(log.read_text(errors="replace") for log in self.work.glob("app-*/*/stderr"))

    def has_executor(self) -> bool:
        """Return whether an executor has registered since the last start of the worker."""
        return self.executor_logs().count(_EXECUTOR_REGISTERED) >= self._starts

    def runs(self, directory: str) -> bool:
        """Return whether a directory is the working directory of one of its executors."""
        return Path(directory).is_relative_to(self.work)

    def _signal(self, number: signal.Signals) -> None:
        os.killpg(self._process.pid, number)  # `Process` starts a session, so the id is that of a group

    def _is_registered(self) -> bool:
        return self._log.read_text(errors="replace").count(_WORKER_REGISTERED) >= self._starts


@dataclass(frozen=True, slots=True)
class StandaloneCluster:
    """A running cluster.

    Attributes:
        spark: The Spark Connect server. Its executors run on the workers.
        workers: The workers.
        directory: The directory with the logs of all programs.
    """

    spark: SparkProcess
    workers: tuple[Worker, ...]
    directory: Path


@contextmanager
def standalone_cluster(directory: Path) -> Iterator[StandaloneCluster]:
    """Run a cluster for the duration of the context, with the logs of its programs in a directory."""
    with ExitStack() as programs:
        master_log = directory / "master.log"
        master = Process(
            _command("org.apache.spark.deploy.master.Master"),
            master_log,
            is_ready=lambda: _MASTER_STARTED.search(master_log.read_text(errors="replace")) is not None,
            environment=_environment() | {"SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false"},
        )
        programs.callback(master.kill)
        master.start()
        started = _MASTER_STARTED.search(master_log.read_text(errors="replace"))
        assert started is not None
        workers = []
        for number in range(1, WORKERS + 1):
            place = directory / f"worker{number}"
            place.mkdir()
            workers.append(Worker(started[1], place))
            programs.callback(workers[-1].kill)
            workers[-1].start()
        server = directory / "server"
        server.mkdir()
        spark = start_spark_process(server, more=_settings(), master=started[1])
        programs.callback(end, spark.process)
        yield StandaloneCluster(spark, tuple(workers), directory)


def _command(class_: str, *arguments: str) -> list[str | Path]:
    spark_class = shared_home() / "bin" / "spark-class"
    return [spark_class, class_, "--host", "127.0.0.1", "--port", "0", "--webui-port", "0", *arguments]


def _environment() -> dict[str, str]:
    return SPARK_ENVIRONMENT | {"SPARK_DAEMON_JAVA_OPTS": _java_options(), "SPARK_DAEMON_MEMORY": "256m"}


def _java_options() -> str:
    return f"{QUICK_JAVA_OPTIONS} {class_archive(create_archive)}"


def _settings() -> dict[str, str]:
    return {
        "spark.cores.max": str(WORKERS),
        "spark.driver.memory": "1g",
        "spark.executor.cores": "1",
        "spark.executor.extraJavaOptions": _java_options(),
        "spark.executor.heartbeatInterval": f"{HEARTBEAT_SECONDS}s",
        "spark.executor.memory": f"{EXECUTOR_MEMORY_MB}m",
        "spark.network.timeout": f"{SILENCE_SECONDS}s",
        "spark.network.timeoutInterval": f"{HEARTBEAT_SECONDS}s",
        "spark.python.unix.domain.socket.dir": tempfile.gettempdir(),
        "spark.storage.blockManagerTimeoutIntervalMs": f"{HEARTBEAT_SECONDS}s",
    }
