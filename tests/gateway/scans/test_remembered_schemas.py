"""Numbers in comments are the guarantees of ``gateway.scans.remembered_schemas``."""

import asyncio
from dataclasses import dataclass
from functools import partial

import pytest
import structlog

from engine.storage.listed_file import ListedFile
from gateway.blocking_work.storage import make_workspace_reads
from gateway.scans import remembered_schemas
from gateway.scans.remembered_schemas import (
    MAX_AGE_SECONDS,
    MAX_PARTS,
    MAX_SEGMENT_BYTES,
    MAX_SEGMENTS,
    PAUSE_SECONDS,
    PRUNE_SECONDS,
    ExaminedScan,
    RememberedSchemas,
)
from gateway.scans.schema_cache import MAX_SCHEMA_BYTES, Examination, SchemaCache
from gateway.scans.segment_format import SegmentError, decode_segment, encode_segment, split_schemas
from workspace.files.schema_segments import FileSchemaSegments
from workspace.files.session_locations import FileSessionLocations
from workspace.identifiers import Principal
from workspace.schema_segments import ScanKey, Segment

ANN = ExaminedScan(Examination(Principal("ann"), "/data", {}), "folder")
FILES = [ListedFile(f"{number}.json", 10, "1") for number in range(20)]


class Clock:
    seconds = 1000.0

    def __call__(self):
        return self.seconds


@dataclass
class Segments:
    """Segments that count how often they are read and listed, and can fail."""

    inner: FileSchemaSegments
    reads: int = 0
    lists: int = 0
    error: OSError | None = None

    def list(self, scan=None):
        self.lists += 1
        if self.error is not None:
            raise self.error
        return self.inner.list(scan)

    def read(self, segment):
        self.reads += 1
        return self.inner.read(segment)

    def write(self, segment, content):
        self.inner.write(segment, content)

    def remove(self, segments):
        self.inner.remove(segments)


@pytest.fixture
def segments(tmp_path):
    FileSessionLocations(tmp_path).initialise()
    return Segments(FileSchemaSegments(tmp_path))


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def start(segments, clock):
    """Start a gateway, which has remembered nothing in memory."""
    return lambda: RememberedSchemas(make_workspace_reads(), segments, clock)


async def examine(gateway, files, schema=b"schema", scan=ANN, of_scan=FILES):
    """Examine files, and wait until the storage has their schema."""
    async with gateway.recording(scan, of_scan) as remember:
        remember(files, schema)
    await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()})


async def test_other_gateway_finds_what_one_has_examined(start):
    await examine(start(), FILES[:3])
    await examine(start(), FILES[5:6], b"other")
    found = await start().find(ANN, FILES[:7])
    assert found == [b"schema"] * 3 + [None] * 2 + [b"other", None]


@pytest.mark.parametrize(
    "other",
    [
        ExaminedScan(Examination(Principal("bob"), "/data", {}), "folder"),
        ExaminedScan(Examination(Principal("ann"), "/data", {"header": "true"}), "folder"),
        ExaminedScan(Examination(Principal("ann"), "/other", {}), "folder"),
    ],
)
async def test_other_examination_finds_nothing(start, other):  # 1
    await examine(start(), FILES)
    assert await start().find(other, FILES[:1]) == [None]


async def test_other_version_of_the_engine_finds_nothing(start, monkeypatch):  # 1
    await examine(start(), FILES)
    monkeypatch.setattr(remembered_schemas, "fingerprint", lambda: "another")
    later = ExaminedScan(ANN.examination, "folder")
    assert await start().find(later, FILES[:1]) == [None]


async def test_changed_file_is_unknown(start):  # 1
    await examine(start(), FILES)
    assert await start().find(ANN, [ListedFile(FILES[0].path, 10, "2"), FILES[1]]) == [None, b"schema"]


async def test_file_that_may_change_unnoticed_is_not_written(start, segments):  # 1
    await examine(start(), [ListedFile("a.json", 10, "1", is_settled=False)])
    assert segments.inner.list() == []


async def test_what_a_failed_discovery_found_is_remembered(start):
    with pytest.raises(ZeroDivisionError):
        async with start().recording(ANN, FILES) as remember:
            remember(FILES[:1], b"schema")
            raise ZeroDivisionError
    await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()})
    assert await start().find(ANN, FILES[:1]) == [b"schema"]


async def test_storage_is_read_only_for_unknown_files(start, segments):  # 3
    await examine(start(), FILES)
    gateway = start()
    segments.lists = segments.reads = 0
    for _ in range(3):
        assert None not in await gateway.find(ANN, FILES)
    assert (segments.lists, segments.reads) == (1, 1)


@pytest.mark.parametrize("damage", [b"", b"LODGE-SCHEMAS-1\n", b"foreign", None])
async def test_damaged_segment_is_ignored_and_removed(start, segments, tmp_path, damage):  # 2
    await examine(start(), FILES[:1])
    await examine(start(), FILES[1:2])
    first = segments.inner.list()[0].segment
    path = tmp_path / ".lodge/scan-schemas" / first.scan / first.name
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]) if damage is None else damage)
    assert sorted(map(str, await start().find(ANN, FILES[:2]))) == ["None", str(b"schema")]
    assert first not in {listed.segment for listed in segments.inner.list()}


async def test_segment_of_another_scan_is_refused(start, segments):  # 1, 2
    other = ExaminedScan(Examination(Principal("bob"), "/data", {}), "folder")
    schemas = dict.fromkeys(ANN.examination.digests(FILES), b"forged")
    segments.write(Segment.new(ANN.key), encode_segment(other.key, schemas))
    assert await start().find(ANN, FILES[:1]) == [None]


def test_segment_returns_what_was_encoded():
    scan = ScanKey("0" * 32)
    schemas = {bytes([number]) * 16: b"one" if number % 2 else b"\xff\x00" for number in range(200)}
    assert decode_segment(scan, encode_segment(scan, schemas)) == schemas
    assert decode_segment(scan, encode_segment(scan, {})) == {}
    assert len(encode_segment(scan, dict.fromkeys(schemas, b"x" * 10_000))) < 20_000
    with pytest.raises(SegmentError):
        decode_segment(ScanKey("1" * 32), encode_segment(scan, schemas))


async def test_failing_storage_delays_nothing_until_the_pause_ends(start, segments, clock):  # 2
    await examine(start(), FILES)
    segments.error, segments.lists = OSError("no route to the storage"), 0
    gateway = start()
    for _ in range(2):
        assert await gateway.find(ANN, FILES[:1]) == [None]
    assert segments.lists == 1
    await examine(gateway, FILES[:1])
    segments.error = None
    assert await gateway.find(ANN, FILES[:2]) == [b"schema", None]
    clock.seconds += PAUSE_SECONDS
    assert await gateway.find(ANN, FILES[:2]) == [b"schema"] * 2


async def test_segments_are_merged_and_vanished_files_are_forgotten(start, segments):  # 4
    gateway = start()
    for number in range(MAX_SEGMENTS):
        await examine(gateway, FILES[number : number + 1])
    assert len(segments.inner.list()) == MAX_SEGMENTS
    await examine(gateway, FILES[8:9], of_scan=FILES[2:9])
    assert len(segments.inner.list()) == 1
    assert await start().find(ANN, FILES[:10]) == [None, None, *[b"schema"] * 7, None]


@pytest.fixture
def small_memory(monkeypatch):
    """Gateways whose memory holds the schemas of four files."""
    monkeypatch.setattr(remembered_schemas, "SchemaCache", partial(SchemaCache, 1000))


async def test_scan_with_more_files_than_the_memory_holds_is_remembered(start, segments, small_memory):  # 5
    gateway = start()
    await examine(gateway, FILES)
    for each in (gateway, start()):
        for _ in range(3):
            assert await each.find(ANN, FILES) == [b"schema"] * 20
    assert len(segments.inner.list()) == 1


async def test_merged_segments_keep_all_files_that_the_memory_lacks(start, segments, small_memory):  # 5, 6
    gateway = start()
    for number in range(MAX_SEGMENTS + 1):
        await examine(gateway, FILES[2 * number : 2 * number + 2], of_scan=FILES[1:])
    assert len(segments.inner.list()) == 1
    assert await start().find(ANN, FILES) == [None, *[b"schema"] * 17, None, None]


async def test_schema_that_is_too_large_is_not_remembered(start, segments):
    gateway = start()
    await examine(gateway, FILES[:1])
    with structlog.testing.capture_logs() as logs:
        await examine(gateway, FILES[1:3], bytes(MAX_SCHEMA_BYTES + 1))
    assert [(one["event"], one["files"]) for one in logs] == [("schemas_not_remembered", 2)]
    for each in (gateway, start()):
        assert await each.find(ANN, FILES[:3]) == [b"schema", None, None]
    assert len(segments.inner.list()) == 1


def distinct(size_bytes, count):
    return [bytes([number]) * size_bytes for number in range(count)]


async def examine_each(gateway, files, schemas):
    async with gateway.recording(ANN, FILES) as remember:
        for file, schema in zip(files, schemas, strict=True):
            remember([file], schema)
    await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()})


async def test_large_segments_are_split(start, segments, monkeypatch):  # 4
    monkeypatch.setattr(remembered_schemas, "MAX_SEGMENT_BYTES", 35_000)
    schemas = distinct(10_000, 12)
    await examine_each(start(), FILES[:12], schemas)
    assert [listed.size_bytes <= 35_000 for listed in segments.inner.list()] == [True] * 4
    assert await start().find(ANN, FILES[:13]) == [*schemas, None]


async def test_schemas_beyond_the_limit_of_a_scan_replace_nothing(start, segments, monkeypatch):  # 4, 6
    monkeypatch.setattr(remembered_schemas, "MAX_SEGMENT_BYTES", 15_000)
    schemas = distinct(10_000, 20)
    with structlog.testing.capture_logs() as logs:
        for first in range(0, 20, MAX_PARTS):
            files = slice(first, first + MAX_PARTS)
            await examine_each(start(), FILES[files], schemas[files])
    assert [(one["event"], one["files"]) for one in logs] == [("schemas_not_remembered", MAX_PARTS)] * 3
    assert len(segments.inner.list()) == MAX_SEGMENTS
    assert await start().find(ANN, FILES) == [*schemas[:MAX_SEGMENTS], *[None] * 12]


def test_parts_have_at_most_their_size():  # 4
    schemas = {bytes([number]) * 16: bytes([number % 7]) * 5000 for number in range(200)}
    parts = split_schemas(schemas, 20_000)
    assert {digest: schema for part in parts for digest, schema in part.items()} == schemas
    assert max(len(encode_segment(ANN.key, part)) for part in parts) <= 20_000
    assert split_schemas({}, 20_000) == []
    largest = dict.fromkeys([b"0" * 16, b"1" * 16], bytes(MAX_SCHEMA_BYTES))
    assert split_schemas(largest, MAX_SEGMENT_BYTES) == [largest]


def test_equal_schemas_of_a_segment_occupy_memory_once():
    schemas = decode_segment(ANN.key, encode_segment(ANN.key, {bytes([n]) * 16: bytes(1000) for n in range(20)}))
    assert len({id(schema) for schema in schemas.values()}) == 1


async def test_two_gateways_merge_at_once_and_lose_nothing(start, segments):  # 4
    gateways = [start(), start()]
    for number in range(MAX_SEGMENTS):
        await examine(gateways[0], FILES[number : number + 1])
    await gateways[1].find(ANN, FILES)
    await asyncio.gather(*(examine_only(gateway, FILES[8 + n : 9 + n]) for n, gateway in enumerate(gateways)))
    await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()})
    assert len(segments.inner.list()) <= 3
    assert await start().find(ANN, FILES[:10]) == [b"schema"] * 10


async def examine_only(gateway, files):
    async with gateway.recording(ANN, FILES) as remember:
        remember(files, b"schema")


async def test_old_segments_are_removed(start, segments, clock, monkeypatch):  # 4
    old = Segment(ANN.key, f"{1:010d}-{'0' * 16}")
    segments.write(old, encode_segment(ANN.key, {}))
    await examine(start(), FILES)
    assert old not in {listed.segment for listed in segments.inner.list()}
    assert await start().find(ANN, FILES) == [b"schema"] * 20
    now = remembered_schemas.time.time()
    monkeypatch.setattr(remembered_schemas.time, "time", lambda: now + MAX_AGE_SECONDS + 1)
    gateway = start()
    clock.seconds += PRUNE_SECONDS
    other = ExaminedScan(Examination(Principal("bob"), "/data", {}), "folder")
    await examine(gateway, FILES, scan=other)
    assert await start().find(ANN, FILES[:1]) == [None]


async def test_oldest_segments_are_removed_when_there_are_too_many(start, segments, clock, monkeypatch):  # 4
    monkeypatch.setattr(remembered_schemas, "MAX_COUNT", 5)
    now = int(remembered_schemas.time.time())
    written = [Segment(ScanKey(f"{number:032x}"), f"{now - 100 + number:010d}-{'0' * 16}") for number in range(10)]
    for segment in written:
        segments.write(segment, b"")
    clock.seconds += PRUNE_SECONDS
    await examine(start(), FILES)
    left = {listed.segment for listed in segments.inner.list()}
    assert {segment for segment in written if segment in left} == set(written[6:])
    assert len(left) == 5


async def test_oldest_segments_are_removed_when_they_are_too_large(start, segments, clock, monkeypatch):  # 4
    now = int(remembered_schemas.time.time())
    written = [Segment(ScanKey(f"{number:032x}"), f"{now - 100 + number:010d}-{'0' * 16}") for number in range(3)]
    for segment in written:
        segments.write(segment, b"x" * 10_000)
    monkeypatch.setattr(remembered_schemas, "MAX_BYTES", 25_000)
    clock.seconds += PRUNE_SECONDS
    await examine(start(), FILES)
    left = {listed.segment for listed in segments.inner.list()}
    assert {segment for segment in written if segment in left} == set(written[1:])


async def test_huge_segment_replaces_no_others(start, segments, clock, monkeypatch):  # 4
    now = int(remembered_schemas.time.time())
    written = [Segment(ScanKey(f"{number:032x}"), f"{now - 100 + number:010d}-{'0' * 16}") for number in range(3)]
    for segment, size_bytes in zip(written, (100, 100, 50_000), strict=True):
        segments.write(segment, bytes(size_bytes))
    monkeypatch.setattr(remembered_schemas, "MAX_BYTES", 40_000)
    monkeypatch.setattr(remembered_schemas, "MAX_SEGMENT_BYTES", 30_000)
    clock.seconds += PRUNE_SECONDS
    await examine(start(), FILES)
    assert set(written) & {listed.segment for listed in segments.inner.list()} == set(written[:2])
