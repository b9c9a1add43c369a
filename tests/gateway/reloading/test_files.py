"""Small files (gateway.reloading.files)."""

import os
import stat
from pathlib import Path

import pytest

from gateway.reloading.files import read_file
from gateway.reloading.last_valid_value import SourceError

MAX_BYTES = 1000


def read(path: Path) -> bytes:
    return read_file(path, label=f"The list [{path}]", max_bytes=MAX_BYTES, if_too_large="Shorten it.")


@pytest.mark.parametrize("size", [0, 1, MAX_BYTES])
def test_file_is_read(tmp_path: Path, size: int) -> None:
    path = tmp_path / "list"
    path.write_bytes(b"x" * size)
    assert read(path) == b"x" * size


def test_larger_file_is_refused_instead_of_truncated(tmp_path: Path) -> None:
    path = tmp_path / "list"
    path.write_bytes(b"x" * (MAX_BYTES + 1))
    with pytest.raises(SourceError) as refused:
        read(path)
    assert str(refused.value) == f"The list [{path}] has more than 1,000 bytes. Shorten it."


def test_endless_file_is_refused() -> None:
    with pytest.raises(SourceError, match=r"The list \[/dev/zero\] has more than 1,000 bytes"):
        read(Path("/dev/zero"))


@pytest.mark.parametrize(("name", "problem"), [("missing", "No such file or directory"), (".", "Is a directory")])
def test_file_that_cannot_be_read_is_refused(tmp_path: Path, name: str, problem: str) -> None:
    with pytest.raises(SourceError) as refused:
        read(tmp_path / name)
    assert (
        str(refused.value)
        == f"The list [{tmp_path / name}] cannot be read: {problem}. Check the path and its permissions."
    )


def test_check_sees_the_status_of_the_file_that_is_read(tmp_path: Path) -> None:
    path = tmp_path / "list"
    path.write_bytes(b"x")
    path.chmod(0o640)
    modes: list[int] = []

    def check(status: os.stat_result) -> None:
        modes.append(stat.S_IMODE(status.st_mode))
        raise SourceError("no")

    with pytest.raises(SourceError, match="no"):
        read_file(path, label="The list", max_bytes=MAX_BYTES, check=check)
    assert modes == [0o640]
