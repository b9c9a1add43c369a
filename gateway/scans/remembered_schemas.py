"""The schemas that gateways remember: in memory, and on the storage of the default temporary workspace.

All replicas share the schemas on the storage, and a gateway that starts finds them there.

Guarantees:

1. The guarantees 1 and 2 of :mod:`gateway.scans.schema_cache` also hold for the storage. In addition, a gateway never
   uses schemas that another version of the engine has found.
2. If the storage fails, or a segment is damaged, files are examined as if nothing were remembered. A statement waits
   for the storage only before files are examined, and not again for ``PAUSE_SECONDS`` after it did not respond.
3. A directory whose files do not change is read from the storage once: a segment is only read if the memory lacks the
   schema of a file. If a directory has more files than the memory can hold, its segments are read by each scan.
4. A scan has at most ``MAX_SEGMENTS`` segments, plus those that another gateway writes at the same time. A segment has
   at most ``MAX_SEGMENT_BYTES``. All segments together have at most ``MAX_BYTES`` and ``MAX_COUNT`` after a gateway has
   removed the oldest, which it does once in ``PRUNE_SECONDS``. It also removes segments that were written more than
   ``MAX_AGE_SECONDS`` ago.
5. What a gateway finds in segments, and what a discovery finds, does not depend on what the memory can hold.
6. A segment is replaced only after all its entries about current files of the scan were written again.

Not guaranteed: a schema larger than ``MAX_SCHEMA_BYTES`` is not remembered, and new schemas of a scan are not written
if all its schemas need more than ``MAX_PARTS`` segments. The event ``schemas_not_remembered`` reports both.
"""

import asyncio
import hashlib
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import ParamSpec, TypeVar

import structlog

from engine.fingerprint import fingerprint
from engine.storage.listed_file import ListedFile
from gateway.blocking_work.pools import Pool
from gateway.errors import GatewayError
from gateway.scans.schema_cache import MAX_SCHEMA_BYTES, Examination, SchemaCache
from gateway.scans.segment_format import SegmentError, decode_segment, encode_segment, split_schemas
from workspace.schema_segments import ListedSegment, ScanKey, SchemaSegments, Segment

MAX_SEGMENTS = 8
MAX_SEGMENT_BYTES = 32 * 1024 * 1024
MAX_PARTS = MAX_SEGMENTS // 2
"""The maximum number of segments that are written at once. They leave room for further ones."""

MAX_BYTES = 256 * 1024 * 1024
MAX_COUNT = 10_000
MAX_AGE_SECONDS = 30 * 24 * 3600
PRUNE_SECONDS = 3600.0
PAUSE_SECONDS = 60.0

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")
_OnSchema = Callable[[Sequence[ListedFile], bytes], None]
_Found = Sequence[tuple[Sequence[ListedFile], bytes]]
log = structlog.get_logger(__name__)


class RememberedSchemas:
    """The schemas that a gateway remembers.

    Args:
        threads: The threads that access the storage.
        segments: The segments on the storage. None to remember schemas only in memory.
        monotonic: A function that returns the current time of a monotonic clock, in seconds.
    """

    def __init__(
        self, threads: Pool, segments: SchemaSegments | None = None, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._threads = threads
        self._segments = segments
        self._monotonic = monotonic
        self._memory = SchemaCache()
        self._next_access = self._next_prune = monotonic()
        self._saves: set[asyncio.Task[None]] = set()

    async def find(self, scan: "ExaminedScan", files: Sequence[ListedFile]) -> Sequence[bytes | None]:
        """Return the schema of each file, or None for files that no gateway has examined."""
        known, is_complete = await self._threads.run_or_abandon(self._find_in_memory, scan, files)
        if is_complete or self._segments is None:
            return known
        return await self._access(self._load, self._segments, scan, files, known) or known

    @asynccontextmanager
    async def recording(self, scan: "ExaminedScan", files: Sequence[ListedFile]) -> AsyncIterator[_OnSchema]:
        """Remember the schemas that are found within a block, even if the block fails or is cancelled.

        They are written to the storage in the background, after the block.

        Args:
            scan: The scan.
            files: All files of the scan.

        Yields:
            A function that remembers the schema of some files.
        """
        found: list[tuple[Sequence[ListedFile], bytes]] = []
        too_large: list[Sequence[ListedFile]] = []

        def remember(examined: Sequence[ListedFile], schema: bytes) -> None:
            self._memory.store(scan.examination, examined, schema)
            settled = [file for file in examined if file.is_settled]
            if settled and len(schema) <= MAX_SCHEMA_BYTES:
                found.append((settled, schema))
            elif settled:
                too_large.append(settled)

        try:
            yield remember
        finally:
            if too_large:
                _report_loss(scan, sum(map(len, too_large)), f"their schema exceeds {MAX_SCHEMA_BYTES:,} bytes")
            if found and self._segments is not None:
                task = asyncio.create_task(self._save(self._segments, scan, found, files))
                self._saves.add(task)
                task.add_done_callback(self._saves.discard)

    async def _save(
        self, segments: SchemaSegments, scan: "ExaminedScan", found: _Found, files: Sequence[ListedFile]
    ) -> None:
        await self._access(_write, segments, scan, found, files)
        if self._monotonic() >= self._next_prune:
            self._next_prune = self._monotonic() + PRUNE_SECONDS
            await self._access(_prune, segments, time.time())

    async def _access(
        self, function: Callable[_Parameters, _Result], *args: _Parameters.args, **kwargs: _Parameters.kwargs
    ) -> _Result | None:
        """Return the result of a function that accesses the storage, or None if the storage fails."""
        if self._monotonic() < self._next_access:
            return None
        try:
            return await self._threads.run_or_abandon(function, *args, **kwargs)
        except (OSError, GatewayError) as error:
            self._next_access = self._monotonic() + PAUSE_SECONDS
            log.warning("remembered_schemas_unavailable", reason=str(error), pause_seconds=PAUSE_SECONDS)
            return None

    def _find_in_memory(self, scan: "ExaminedScan", files: Sequence[ListedFile]) -> tuple[Sequence[bytes | None], bool]:
        """Return the schema of each file, or None, and whether all are known."""
        known = self._memory.find(scan.examination, files)
        return known, None not in known

    def _load(
        self,
        segments: SchemaSegments,
        scan: "ExaminedScan",
        files: Sequence[ListedFile],
        known: Sequence[bytes | None],
    ) -> Sequence[bytes | None]:
        """Return the known schemas, with those that the segments of the scan add to them."""
        missing = [number for number, schema in enumerate(known) if schema is None]
        digests = scan.examination.digests([files[number] for number in missing])
        wanted = frozenset(digests)
        found = _read_all(segments, segments.list(scan.key), wanted)
        self._memory.add(found)
        merged = list(known)
        for number, digest in zip(missing, digests, strict=True):
            merged[number] = found.get(digest)
        return merged


class ExaminedScan:
    """A scan whose files are examined.

    Args:
        examination: What the schema of a file depends on.
        path: The file, directory or pattern that is scanned.

    Attributes:
        examination: See above.
        key: The key of the scan's segments. It depends on the version of the engine, too.
    """

    def __init__(self, examination: Examination, path: str) -> None:
        self.examination = examination
        text = b"\0".join((fingerprint().encode(), path.encode(errors="surrogateescape"), examination.encode()))
        self.key = ScanKey(hashlib.blake2b(text, digest_size=16).hexdigest())


def _write(segments: SchemaSegments, scan: ExaminedScan, found: _Found, files: Sequence[ListedFile]) -> None:
    """Write what a discovery found. If there are too many segments, replace them by those of the current files."""
    schemas = {digest: schema for examined, schema in found for digest in scan.examination.digests(examined)}
    existing = segments.list(scan.key)
    parts = split_schemas(schemas, MAX_SEGMENT_BYTES)
    replaced: Sequence[Segment] = []
    if len(existing) + len(parts) > MAX_SEGMENTS:
        current = frozenset(scan.examination.digests(files))
        parts = split_schemas({**_read_all(segments, existing, current), **schemas}, MAX_SEGMENT_BYTES)
        replaced = [listed.segment for listed in existing]
    if len(parts) > MAX_PARTS:
        _report_loss(scan, len(schemas), f"the schemas of all files exceed {MAX_PARTS * MAX_SEGMENT_BYTES:,} bytes")
        return
    for part in parts:
        segments.write(Segment.new(scan.key), encode_segment(scan.key, part))
    if replaced:
        segments.remove(replaced)


def _read_all(
    segments: SchemaSegments, existing: Iterable[ListedSegment], wanted: Collection[bytes]
) -> Mapping[bytes, bytes]:
    """Return the wanted schemas in segments, by the keys of their files. Segments that are too large are ignored."""
    return {
        digest: schema
        for listed in existing
        if listed.size_bytes <= MAX_SEGMENT_BYTES
        for digest, schema in _read(segments, listed.segment).items()
        if digest in wanted
    }


def _report_loss(scan: ExaminedScan, files: int, reason: str) -> None:
    log.warning("schemas_not_remembered", scan=scan.key, files=files, reason=reason)


def _read(segments: SchemaSegments, segment: Segment) -> Mapping[bytes, bytes]:
    content = segments.read(segment)
    if content is None:  # another gateway has just replaced it
        return {}
    try:
        return decode_segment(segment.scan, content)
    except SegmentError as error:
        log.warning("segment_damaged", scan=segment.scan, segment=segment.name, reason=str(error))
        segments.remove([segment])
        return {}


def _prune(segments: SchemaSegments, now_seconds: float) -> None:
    removed, size_bytes = [], 0
    newest_first = sorted(segments.list(), key=lambda listed: listed.segment.name, reverse=True)
    count = 0
    for listed in newest_first:
        is_old = listed.segment.written_seconds < now_seconds - MAX_AGE_SECONDS
        if is_old or listed.size_bytes > MAX_SEGMENT_BYTES:
            removed.append(listed.segment)
            continue
        count += 1
        size_bytes += listed.size_bytes
        if count > MAX_COUNT or size_bytes > MAX_BYTES:
            removed.append(listed.segment)
    if removed:
        segments.remove(removed)
        log.info("segments_removed", count=len(removed))
