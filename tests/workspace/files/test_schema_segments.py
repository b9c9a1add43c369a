"""Remembered schemas as private files. Numbers are the guarantees of workspace.schema_segments."""

import stat
from pathlib import Path
from pkgutil import resolve_name
from typing import Any
from unittest import mock

import pytest

from workspace.files.layout import Layout
from workspace.files.schema_segments import FileSchemaSegments
from workspace.files.session_locations import FileSessionLocations
from workspace.schema_segments import ScanKey, Segment

SCAN = ScanKey("0" * 32)


def test_files_are_private(tmp_path: Path) -> None:  # 2
    FileSessionLocations(tmp_path).initialise()
    FileSchemaSegments(tmp_path).write(Segment.new(SCAN), b"")
    directory = Layout(tmp_path).scan_schemas
    found = [directory, *sorted(directory.rglob("*"))]
    assert [stat.filemode(path.stat().st_mode) for path in found] == ["drwx------", "drwx------", "-rw-------"]


def test_links_are_not_followed(tmp_path: Path) -> None:  # 2
    FileSessionLocations(tmp_path / "root").initialise()
    segment = Segment.new(SCAN)
    directory = Layout(tmp_path / "root").scan_schemas
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / segment.name).write_bytes(b"foreign")
    directory.mkdir()
    (directory / SCAN).symlink_to(tmp_path / "elsewhere")
    segments = FileSchemaSegments(tmp_path / "root")
    assert segments.list() == []
    for access in (lambda: segments.read(segment), lambda: segments.write(segment, b"")):
        with pytest.raises(NotADirectoryError):
            access()


def test_temporary_file_of_a_killed_process_goes_with_the_last_segment(tmp_path: Path) -> None:
    FileSessionLocations(tmp_path).initialise()
    segments, segment = FileSchemaSegments(tmp_path), Segment.new(SCAN)
    segments.write(segment, b"")
    directory = Layout(tmp_path).scan_schemas / SCAN
    (directory / ".temporary-0").touch()
    assert [listed.segment for listed in segments.list()] == [segment]
    segments.remove([segment])
    assert not directory.exists()


@pytest.mark.parametrize("step", ["open_directory", "write_private_file", "os.rename"])
def test_segment_is_written_although_the_last_one_is_removed_at_any_step(tmp_path: Path, step: str) -> None:
    FileSessionLocations(tmp_path).initialise()
    segments, last, new = FileSchemaSegments(tmp_path), Segment.new(SCAN), Segment.new(SCAN)
    segments.write(last, b"")
    path = f"workspace.files.schema_segments.{step}"
    original, removals = resolve_name(path), []

    def remove_the_last(*arguments: Any, **more: Any) -> Any:
        if not removals:
            removals.append(last)
            segments.remove([last])
        return original(*arguments, **more)

    with mock.patch(path, side_effect=remove_the_last):
        segments.write(new, b"new")
    assert [listed.segment for listed in segments.list()] == [new]
    assert segments.read(new) == b"new"
