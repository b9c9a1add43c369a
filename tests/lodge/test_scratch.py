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


def test_guarantee_1_it_is_private_and_gone_when_the_block_ends() -> None:
    with scratch_directory() as path:
        (path / "data").write_text("data")
        assert path.stat().st_mode & 0o777 == 0o700
    assert not path.exists()


def test_guarantee_2_what_a_killed_process_left_is_removed_by_the_next(tmp_path: Path) -> None:
    left = tmp_path / "lodge-spark-left"
    (left / "tmp").mkdir(parents=True)
    make_old(left)
    with scratch_directory():
        assert not left.exists()


def test_a_directory_in_use_is_left_alone_however_old_it_is() -> None:
    with scratch_directory() as used:
        make_old(used)
        with scratch_directory():
            assert used.exists()


def test_a_young_directory_a_link_and_other_names_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "lodge-spark-young").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "lodge-spark-link").symlink_to(tmp_path / "other")
    make_old(tmp_path / "other")
    with scratch_directory():
        assert {path.name for path in tmp_path.iterdir()} >= {"lodge-spark-young", "other", "lodge-spark-link"}
