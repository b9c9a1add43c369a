"""What the tests of the engine share: a workspace to fill with files, and a session with Spark."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql.connect.session import SparkSession

from engine.source import ScanSource


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
def spark(spark_server: str) -> Iterator[SparkSession]:
    """A session with the Spark server itself, without a gateway."""
    session = SparkSession.builder.remote(spark_server).create()
    yield session
    session.stop()
