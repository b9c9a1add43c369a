"""A real Spark Connect server, which a fault may kill or pause.

It uses the storage of these tests.
"""

import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from tests.chaos.programs import Program
from tests.cluster.ports import free_port
from tests.conftest import SPARK_ENVIRONMENT, create_archive
from tests.quick_java import QUICK_JAVA_OPTIONS
from tests.spark_home import class_archive, shared_home

_DETACHED_SECONDS = 15
_STREAM_SECONDS = 10  # a blocked sender notices a lost client only at the end of its stream
ABANDONED_SECONDS = _STREAM_SECONDS + _DETACHED_SECONDS
"""How long Spark keeps the result of a statement whose client is gone. Until then, the session is not idle."""

_TASKS = 16
"""Concurrent tasks. Most tasks in these tests sleep."""


class Backend:
    """One server, always at the same address.

    Args:
        directory: A directory that the server may write to.
        prefix: Words before its command.
        more: Further settings of Spark.
        environment: Further environment variables.
    """

    def __init__(
        self,
        directory: Path,
        prefix: Sequence[str] = (),
        more: Mapping[str, str] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.port = free_port()
        self.address = f"sc://127.0.0.1:{self.port}"
        home = shared_home()
        settings = {
            "spark.connect.execute.manager.detachedTimeout": f"{_DETACHED_SECONDS}s",
            "spark.connect.execute.manager.maintenanceInterval": "1s",
            "spark.connect.execute.reattachable.senderMaxStreamDuration": f"{_STREAM_SECONDS}s",
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": str(self.port),
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.extraJavaOptions": f"{QUICK_JAVA_OPTIONS} {class_archive(create_archive)}",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.memory": "1g",
            "spark.local.dir": str(directory),
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.warehouse.dir": str(directory / "warehouse"),
            "spark.ui.enabled": "false",
            **(more or {}),
        }
        command = [*prefix, str(home / "bin" / "spark-submit"), "--master", f"local[{_TASKS}]"]
        command += [word for key, value in settings.items() for word in ("--conf", f"{key}={value}")]
        command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"]
        variables = {**SPARK_ENVIRONMENT, "SPARK_HOME": str(home), **(environment or {})}
        self._log = directory / "backend.log"
        self.process = Program(command, self._log, is_ready=self._answers, environment=variables)

    def log(self) -> str:
        """Return everything that the server has logged."""
        return self._log.read_text(errors="replace")

    def _answers(self) -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
            return True
        return False
