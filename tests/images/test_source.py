"""The key of a source, by which unchanged sources build nothing."""

import os
from pathlib import Path

import pytest

from images import source


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(source, "REPOSITORY", tmp_path)
    (tmp_path / ".containerignore").write_text("*\n!lodge/\n")
    for directory in ("lodge/__pycache__", "docs", "images", "tests/cluster/programs/go"):
        (tmp_path / directory).mkdir(parents=True)
    for name in ("Containerfile", "lodge/cli.py", "docs/page.md", "tests/cluster/programs/go/go.mod"):
        (tmp_path / name).write_text("content\n")
    return tmp_path


def test_key_changes_with_content_name_mode_and_settings(repository: Path) -> None:
    found = {source.key(), source.key("base")}
    (repository / "lodge/cli.py").write_text("changed\n")
    found.add(source.key())
    (repository / "lodge/cli.py").chmod(0o755)
    found.add(source.key())
    (repository / "lodge/cli.py").rename(repository / "lodge/command.py")
    found.add(source.key())
    assert len(found) == 5


def test_key_does_not_change_with_times_and_other_files(repository: Path) -> None:
    key = source.key()
    os.utime(repository / "lodge/cli.py", (0, 0))
    (repository / "docs/page.md").write_text("changed\n")
    (repository / "lodge/__pycache__/cli.pyc").write_text("bytecode\n")
    assert source.key() == key


def test_labels_name_the_source(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "86400")
    found = source.labels("https://example.com/lodge")
    assert found["org.opencontainers.image.created"] == "1970-01-02T00:00:00+00:00"
    assert found["org.opencontainers.image.source"] == "https://example.com/lodge"
    assert found["org.opencontainers.image.version"] == source.version()
