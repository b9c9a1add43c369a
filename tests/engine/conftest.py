"""What the tests of the engine share: a workspace to fill with files, and one Spark for all of them.

Spark is a server in a process of its own. A session inside this process would keep every other test of the
run from connecting to a server.
"""

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyspark
import pytest
from pyspark.sql.connect.session import SparkSession

import engine
from engine.source import ScanSource

START_SECONDS = 120
STOP_SECONDS = 30
STARTED = re.compile(r"Spark Connect server started at: (\S+:\d+)")


@dataclass(frozen=True, slots=True)
class Workspace:
    """The workspace ``dfs`` in a directory, with a neighbour ``outside`` that no scan may see."""

    root: Path
    outside: Path

    def write(self, path: str, content: str | bytes = "a,b\n") -> Path:
        """Creates a file, relative to the root, and the directories above it."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)
        return file

    def link(self, path: str, target: Path) -> None:
        (self.root / path).symlink_to(target)

    def scan(self, path: str, excluded: Path | None = None) -> ScanSource:
        return ScanSource("dfs", str(self.root), path, None if excluded is None else str(excluded))


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    root, outside = tmp_path / "root", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    (outside / "secret.csv").write_text("secret\n")
    return Workspace(root, outside)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session with a Spark server that finds the data source on its Python path, as if it was installed."""
    directory = tmp_path_factory.mktemp("spark")
    log = directory / "server.log"
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": "0",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.ui.enabled": "false",
    }
    command = [str(Path(pyspark.__file__).parent / "bin" / "spark-submit"), "--master", "local[2]"]
    for key, value in settings.items():
        command += ["--conf", f"{key}={value}"]
    command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"]
    environment = os.environ | {
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(Path(engine.__file__).parents[1]),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    with log.open("wb") as output:
        server = subprocess.Popen(command, cwd=directory, env=environment, stdout=output, stderr=subprocess.STDOUT)
    try:
        session = SparkSession.builder.remote(f"sc://{wait_for_address(server, log)}").create()
        yield session
        session.stop()
    finally:
        server.terminate()
        try:
            server.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait(STOP_SECONDS)


def wait_for_address(server: "subprocess.Popen[bytes]", log: Path) -> str:
    """The address that the server says it listens on."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and server.poll() is None:
        if started := STARTED.search(log.read_text(errors="replace")):
            return started[1]
        time.sleep(0.1)
    pytest.fail(f"Spark did not start in {START_SECONDS} s; its log ends:\n{log.read_text()[-4000:]}")
