"""Fixtures for the engine: a workspace of files, scans of it, and a Spark session."""

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.connect.session import SparkSession

from engine.file_scan.file_scan import FileScan
from engine.file_scan.partition_reading import read_partition
from engine.file_scan.partitions import plan_partitions
from engine.file_scan.schema_discovery import discover_schema
from engine.scan_source import ScanSource


@dataclass(frozen=True, slots=True)
class Workspace:
    """The workspace ``dfs`` in a directory, beside a directory ``outside`` that scans may not read."""

    root: Path
    outside: Path

    def write(self, path: str, content: str | bytes = "a,b\n") -> Path:
        """Create a file, relative to the root, and the directories above it."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)
        return file

    def link(self, path: str, target: Path) -> None:
        (self.root / path).symlink_to(target)

    def scan(self, path: str, excluded: Path | None = None) -> ScanSource:
        return ScanSource("dfs", str(self.root), path, () if excluded is None else (str(excluded),))

    def rows(self, path: str = ".", **options: str) -> list[dict[str, object]]:
        """Return the rows of a scan of a path, as Spark runs it."""
        scan = FileScan.from_options(self.scan(path).to_options(reader=options))
        schema = discover_schema(scan)
        batches = [
            batch for files in plan_partitions(scan) for batch in read_partition(scan, files, schema, is_declared=False)
        ]
        return pa.Table.from_batches(batches, None if batches else pa.schema([])).to_pylist()


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a scan in a separate process.

    Attributes:
        rows: The number of rows. None after an error.
        error: The class of the engine's error, and its message.
        most_bytes: The peak memory of the process so far.
    """

    rows: int | None
    error: tuple[str, str] | None
    most_bytes: int


class ScanProcess:
    """A separate process for scans, so that its crash fails one test and not the whole run.

    Args:
        directory: Where to write the standard error of the process.
    """

    def __init__(self, directory: Path) -> None:
        self._errors = directory / "errors.log"
        self._process: subprocess.Popen[str] | None = None

    def scan(self, source: ScanSource, declared: dict[str, str] | None = None, **options: str) -> Outcome:
        """Scan a source. The test fails if the process ends, or raises anything but an engine error."""
        request = {"options": source.to_options(reader=options), "declared": declared}
        process = self._process = self._process or self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(request) + "\n")
        process.stdin.flush()
        line = process.stdout.readline()
        if not line:
            self._process = None
            pytest.fail(f"The scan ended its process with {process.wait()}: {self._errors.read_text()[-2000:]}")
        answer = json.loads(line)
        if "unexpected" in answer:
            pytest.fail(answer["unexpected"])
        error = (answer["error"], answer["message"]) if "error" in answer else None
        return Outcome(answer.get("rows"), error, answer["most_bytes"])

    def close(self) -> None:
        if self._process is not None:
            self._process.communicate()
            self._process = None

    def _start(self) -> "subprocess.Popen[str]":
        command = [sys.executable, str(Path(__file__).with_name("scan_in_process.py"))]
        with self._errors.open("w") as errors:
            return subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, errors="replace"
            )


@pytest.fixture(scope="session")
def scan_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ScanProcess]:
    """A process that tests share unless they measure its memory."""
    process = ScanProcess(tmp_path_factory.mktemp("scans"))
    yield process
    process.close()


@pytest.fixture
def new_scan_process(tmp_path: Path) -> Iterator[ScanProcess]:
    process = ScanProcess(tmp_path)
    yield process
    process.close()


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    root, outside = tmp_path / "root", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    (outside / "secret.csv").write_text("secret\n")
    return Workspace(root, outside)


@pytest.fixture(scope="session")
def spark(spark_server: str) -> Iterator[SparkSession]:
    """A session with the Spark server, without a gateway."""
    session = SparkSession.builder.remote(spark_server).create()
    yield session
    session.stop()
