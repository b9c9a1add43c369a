"""The schemas that gateways remember: in memory, and on the storage of the default temporary workspace.

All replicas share the schemas on the storage, and a gateway that starts finds them there.

Guarantees:

1. The guarantees 1 and 2 of :mod:`gateway.scans.schema_cache` also hold for the storage. In addition, a gateway never
   uses schemas that another version of the engine has found.
2. If the storage fails, or a segment is damaged, files are examined as if nothing were remembered. A statement waits
   for the storage only before files are examined, and not again for ``PAUSE_SECONDS`` after it did not respond.
3. A directory whose files do not change is read from the storage once: a segment is only read if the memory lacks the
   schema of a file.
4. A scan has at most ``MAX_SEGMENTS`` segments, plus one for each gateway that scans it at the same time. All segments
   together have at most ``MAX_BYTES`` and ``MAX_COUNT`` after a gateway has removed the oldest, which it does once in
   ``PRUNE_SECONDS``. It also removes segments that were written more than ``MAX_AGE_SECONDS`` ago.
"""

import asyncio
import hashlib
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import ParamSpec, TypeVar

import structlog

from engine.fingerprint import fingerprint
from engine.storage.listed_file import ListedFile
from gateway.errors import GatewayError
from gateway.pools import Pool
from gateway.scans.schema_cache import Examination, SchemaCache
from gateway.scans.segment_format import SegmentError, decode_segment, encode_segment
from workspace.schema_segments import ScanKey, SchemaSegments, Segment

MAX_SEGMENTS = 8
MAX_BYTES = 256 * 1024 * 1024
MAX_COUNT = 10_000
MAX_AGE_SECONDS = 30 * 24 * 3600
PRUNE_SECONDS = 3600.0
PAUSE_SECONDS = 60.0

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")
_OnSchema = Callable[[Sequence[ListedFile], bytes], None]
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

    async def find(self, scan: "ExaminedScan", files: Sequence[ListedFile]) -> list[bytes | None]:
        """Return the schema of each file, or None for files that no gateway has examined."""
        known = await self._threads.run_or_abandon(self._memory.find, scan.examination, files)
        if None in known and self._segments is not None:
            missing = [file for file, schema in zip(files, known, strict=True) if schema is None]
            if await self._access(self._load, self._segments, scan, missing):
                known = await self._threads.run_or_abandon(self._memory.find, scan.examination, files)
        return known

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
        found: list[ListedFile] = []

        def remember(examined: Sequence[ListedFile], schema: bytes) -> None:
            self._memory.store(scan.examination, examined, schema)
            found.extend(file for file in examined if file.is_settled)

        try:
            yield remember
        finally:
            if found and self._segments is not None:
                task = asyncio.create_task(self._save(self._segments, scan, found, files))
                self._saves.add(task)
                task.add_done_callback(self._saves.discard)

    async def _save(
        self, segments: SchemaSegments, scan: "ExaminedScan", found: Sequence[ListedFile], files: Sequence[ListedFile]
    ) -> None:
        await self._access(self._write, segments, scan, found, files)
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

    def _load(self, segments: SchemaSegments, scan: "ExaminedScan", missing: Sequence[ListedFile]) -> bool:
        """Read the segments of a scan into the memory. Return whether they have a schema that was missing."""
        wanted = frozenset(scan.examination.digests(missing))
        found = {
            digest: schema
            for listed in segments.list(scan.key)
            for digest, schema in _read(segments, listed.segment).items()
            if digest in wanted
        }
        self._memory.add(found)
        return bool(found)

    def _write(
        self, segments: SchemaSegments, scan: "ExaminedScan", found: Sequence[ListedFile], files: Sequence[ListedFile]
    ) -> None:
        """Write a segment. If there are too many, it replaces them, and has the schemas of all files."""
        existing = [listed.segment for listed in segments.list(scan.key)]
        is_full = len(existing) >= MAX_SEGMENTS
        of_segment = files if is_full else found
        schemas = self._memory.find(scan.examination, of_segment)
        digests = scan.examination.digests(of_segment)
        known = {digest: schema for digest, schema in zip(digests, schemas, strict=True) if schema is not None}
        segments.write(Segment.new(scan.key), encode_segment(scan.key, known))
        if is_full:
            segments.remove(existing)


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
    for count, listed in enumerate(newest_first):
        size_bytes += listed.size_bytes
        is_old = listed.segment.written_seconds < now_seconds - MAX_AGE_SECONDS
        if is_old or count >= MAX_COUNT or size_bytes > MAX_BYTES:
            removed.append(listed.segment)
    if removed:
        segments.remove(removed)
        log.info("segments_removed", count=len(removed))
