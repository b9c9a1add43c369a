"""Session records as files on the workspace's storage: the default where there is no Kubernetes.

Why it exists: Lodge must run, and be proved, with nothing but a shared directory. How files are changed by
compare-and-swap, and what holds after a crash, is :mod:`workspace.files.record_directories`; this module is what
stands in them.

Guarantees beside those of :mod:`workspace.records`:

1. A record that is damaged, or of an unknown format, makes reading fail with RecordsUnavailableError that
   names the file, also in ``list``: nobody may conclude from it that a session does not exist.
2. A record is only accepted from the place that its own identity names.
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from workspace.files.layout import Layout
from workspace.files.record_directories import Content, RecordDirectories
from workspace.record_json import decode_record, encode_record
from workspace.records import (
    RecordChanged,
    RecordGone,
    RecordName,
    RecordsEvent,
    RecordsListed,
    RecordsUnavailableError,
    RecordsUnreachable,
    SessionRecord,
    SessionUuid,
    StoredRecord,
    Version,
)

_POLL_SECONDS = 1.0
_WAIT_PER_LOOK = 9


class FileSessionRecords:
    """Implements :class:`workspace.records.SessionRecords`; safe to share between threads.

    Args:
        root: The root of the default temporary workspace, initialised by
            :meth:`workspace.locations.SessionLocations.initialise`.
        monotonic: A clock, in seconds.
        poll_seconds: How long ``watch`` waits between two looks; longer if a look takes long.
    """

    def __init__(
        self, root: Path, monotonic: Callable[[], float] = time.monotonic, poll_seconds: float = _POLL_SECONDS
    ) -> None:
        self._files = RecordDirectories(Layout.below(root), monotonic)
        self._poll_seconds = poll_seconds

    def create(self, record: SessionRecord) -> StoredRecord:
        return StoredRecord(record, self._files.create(record.name, encode_record(record)))

    def read(self, name: RecordName) -> StoredRecord:
        return _stored(name, self._files.read(name))

    def list(self) -> Sequence[StoredRecord]:
        return [_stored(name, content) for name, content in self._files.list()]

    def find(self, session_uuid: SessionUuid) -> StoredRecord | None:
        return next((stored for stored in self.list() if stored.record.session_uuid == session_uuid), None)

    def watch(self, stop: threading.Event) -> Iterator[RecordsEvent]:
        known: Mapping[RecordName, StoredRecord] | None = None
        while not stop.is_set():
            begun_seconds = time.monotonic()
            try:
                found = {stored.record.name: stored for stored in self.list()}
            except RecordsUnavailableError as error:
                known = None
                yield RecordsUnreachable(str(error))
            else:
                yield from _events(known, found)
                known = found
            took_seconds = time.monotonic() - begun_seconds
            stop.wait(max(self._poll_seconds, took_seconds * _WAIT_PER_LOOK))

    def replace(self, record: SessionRecord, version: Version) -> StoredRecord:
        return StoredRecord(record, self._files.replace(record.name, encode_record(record), version))

    def delete(self, name: RecordName, version: Version) -> None:
        self._files.delete(name, version)


def _events(
    known: Mapping[RecordName, StoredRecord] | None, found: Mapping[RecordName, StoredRecord]
) -> Iterator[RecordsEvent]:
    if known is None:
        yield RecordsListed(tuple(found.values()))
        return
    for name, stored in found.items():
        if known.get(name) != stored:
            yield RecordChanged(stored)
    for name in known.keys() - found.keys():
        yield RecordGone(name)


def _stored(name: RecordName, content: Content) -> StoredRecord:
    try:
        record = decode_record(content.content)
        if record.name != name:
            raise ValueError("it is the record of another session")
    except ValueError as error:
        raise RecordsUnavailableError(
            name,
            f"The session record {content.file} is damaged: {error}. Restore it, or remove its directory.",
        ) from error
    return StoredRecord(record, content.version)
