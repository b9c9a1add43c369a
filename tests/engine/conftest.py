"""What the tests of the engine share: a workspace to fill with files, scans of it, and a session with Spark."""

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.connect.session import SparkSession

from engine.file_scan import FileScan
from engine.scan_source import ScanSource


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
        return ScanSource("dfs", str(self.root), path, () if excluded is None else (str(excluded),))

    def rows(self, path: str = ".", **options: str) -> list[dict[str, object]]:
        """What a scan of a path gives, as Spark runs it."""
        scan = FileScan.from_options(self.scan(path).to_options(reader=options))
        schema = scan.discover()
        batches = [batch for files in scan.partitions() for batch in scan.batches(files, schema, is_declared=False)]
        return pa.Table.from_batches(batches, None if batches else pa.schema([])).to_pylist()


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a scan in a process of its own.

    Attributes:
        rows: How many there were; None after an error.
        error: The class of the engine's error, and its message.
        most_bytes: The most memory that the process has had so far.
    """

    rows: int | None
    error: tuple[str, str] | None
    most_bytes: int


class ScanProcess:
    """Scans in another process, so that its death is a failure of the test and not of the tests.

    Args:
        directory: For what it writes to standard error.
    """

    def __init__(self, directory: Path) -> None:
        self._errors = directory / "errors.log"
        self._process: subprocess.Popen[str] | None = None

    def scan(self, source: ScanSource, declared: dict[str, str] | None = None, **options: str) -> Outcome:
        """Fails the test if the process ends, or if anything but an error of the engine is raised."""
        request = {"options": source.to_options(reader=options), "declared": declared}
        process = self._process = self._process or self._started()
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

    def _started(self) -> "subprocess.Popen[str]":
        command = [sys.executable, str(Path(__file__).with_name("scan_in_process.py"))]
        with self._errors.open("w") as errors:
            return subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, errors="replace"
            )


@pytest.fixture(scope="session")
def scan_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ScanProcess]:
    """One for all tests that need not know how much memory it took."""
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
    """A session with the Spark server itself, without a gateway."""
    session = SparkSession.builder.remote(spark_server).create()
    yield session
    session.stop()
