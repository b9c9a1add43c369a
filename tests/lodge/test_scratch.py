import os
import tempfile
from pathlib import Path

import pytest

from lodge.scratch import scratch_directory


@pytest.fixture(autouse=True)
def _own_temporary_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def make_old(path: Path) -> None:
    os.utime(path, (0, 0))


def test_guarantee_1_directory_is_private_and_removed_after_the_block() -> None:
    with scratch_directory() as path:
        (path / "data").write_text("data")
        assert path.stat().st_mode & 0o777 == 0o700
    assert not path.exists()


def test_guarantee_2_next_process_removes_leftover_directory(tmp_path: Path) -> None:
    left = tmp_path / "lodge-spark-left"
    (left / "tmp").mkdir(parents=True)
    make_old(left)
    with scratch_directory():
        assert not left.exists()


def test_old_directory_in_use_is_kept() -> None:
    with scratch_directory() as used:
        make_old(used)
        with scratch_directory():
            assert used.exists()


def test_young_directories_links_and_other_names_are_kept(tmp_path: Path) -> None:
    (tmp_path / "lodge-spark-young").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "lodge-spark-link").symlink_to(tmp_path / "other")
    make_old(tmp_path / "other")
    with scratch_directory():
        assert {path.name for path in tmp_path.iterdir()} >= {"lodge-spark-young", "other", "lodge-spark-link"}
