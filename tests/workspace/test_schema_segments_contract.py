"""The contract of remembered schemas for every storage. Numbers are the guarantees of workspace.schema_segments."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.workspace.object_store.storages import Files, Storage
from workspace.schema_segments import ScanKey, SchemaSegments, Segment

SCAN, OTHER = ScanKey("0" * 32), ScanKey("f" * 32)


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return Files(tmp_path / "workspace")


@pytest.fixture
def segments(storage: Storage) -> Iterator[SchemaSegments]:
    storage.opened()
    yield storage.schema_segments()
    assert storage.files() == {}  # a segment is a file of Lodge's own


def names(segments: SchemaSegments, scan: ScanKey | None = None) -> set[Segment]:
    return {listed.segment for listed in segments.list(scan)}


def test_written_segments_are_listed_and_read(segments: SchemaSegments) -> None:
    assert segments.list() == segments.list(SCAN) == []
    first, second, other = Segment.new(SCAN), Segment.new(SCAN), Segment.new(OTHER)
    for segment, content in ((first, b"first"), (second, b""), (other, b"other")):
        segments.write(segment, content)
    assert names(segments, SCAN) == {first, second}
    assert names(segments) == {first, second, other}
    assert {listed.segment: listed.size_bytes for listed in segments.list()} == {first: 5, second: 0, other: 5}
    assert [segments.read(segment) for segment in (first, second, other)] == [b"first", b"", b"other"]


def test_removed_segments_are_gone(segments: SchemaSegments) -> None:  # 3
    first, second = Segment.new(SCAN), Segment.new(SCAN)
    segments.write(first, b"first")
    segments.write(second, b"second")
    for _ in range(2):
        segments.remove([first])
        assert names(segments) == {second}
        assert segments.read(first) is None
    segments.remove([second, Segment.new(OTHER)])
    assert segments.list() == []
    segments.write(second, b"again")
    assert segments.read(second) == b"again"


def test_many_writers_and_removers_at_once(segments: SchemaSegments) -> None:  # 1
    def work(number: int) -> bytes | None:
        segment = Segment.new(SCAN)
        segments.write(segment, b"x" * 10_000)
        content = segments.read(segment)
        if number % 2:
            segments.remove([segment])
        return content

    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(work, range(40))) == {b"x" * 10_000}
    assert {listed.size_bytes for listed in segments.list()} == {10_000}
    assert len(segments.list()) == 20


def test_foreign_files_are_left_out(storage: Storage, segments: SchemaSegments) -> None:
    segment = Segment.new(SCAN)
    segments.write(segment, b"")
    for name in (f"{SCAN}/notes.txt", "notes.txt", f"{'g' * 32}/{segment.name}", f"{SCAN}/{segment.name}x"):
        storage.write(f".lodge/scan-schemas/{name}")
    assert names(segments) == names(segments, SCAN) == {segment}


@pytest.mark.parametrize("scan", ["", "..", "0" * 31, "0" * 33, "../" + "0" * 29, "A" * 32])
def test_scan_with_another_form_is_refused(scan: str) -> None:
    with pytest.raises(ValueError, match="not that of a segment"):
        Segment.new(ScanKey(scan))
