"""Session records as files in the workspace, which is the default.

Lodge must run, and must be testable, with only a shared directory. :mod:`workspace.files.record_directories` describes
how the files change by compare-and-swap and what is guaranteed after a crash.

Guarantees in addition to those of :mod:`workspace.record_store`:

1. If a record is damaged or has an unknown format, every operation that reads it fails with RecordsUnavailableError,
   including ``list``. The message contains the path of the file. As a result, no process can conclude that the session
   does not exist.
2. A record is valid only if its path is derived from the identity of its session.
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, MutableMapping, Sequence
from contextlib import suppress
from pathlib import Path

from workspace import record_store
from workspace.files.layout import Layout
from workspace.files.record_directories import Content, RecordDirectories
from workspace.files.record_index import RecordIndex
from workspace.identifiers import Principal, RecordName, ReplicaId, SessionUuid
from workspace.record_json import decode_record, encode_record
from workspace.records import SessionRecord

_POLL_SECONDS = 1.0
_PAUSE_FACTOR = 9


class FileSessionRecords:
    """An implementation of ``SessionRecords`` on a file system.

    It is safe for use by several threads.

    Args:
        root: The home of the workspace. It must already be initialised with
            :meth:`workspace.locations.SessionLocations.initialise`.
        monotonic: A function that returns the current time of a monotonic clock, in seconds.
        poll_seconds: The time that ``watch`` waits between two lists. If listing takes long, it waits longer.
        root_id: The id of the home. None means the id that is found first.
    """

    def __init__(
        self,
        root: Path,
        monotonic: Callable[[], float] = time.monotonic,
        poll_seconds: float = _POLL_SECONDS,
        root_id: str | None = None,
    ) -> None:
        self._files = RecordDirectories(Layout(root), monotonic, root_id)
        self._index = RecordIndex()
        self._poll_seconds = poll_seconds

    def create(self, record: SessionRecord) -> record_store.StoredRecord:
        """Store a new record."""
        return record_store.StoredRecord(record, self._files.create(record.name, encode_record(record)))

    def read(self, name: RecordName) -> record_store.StoredRecord:
        """Return the current state of a record."""
        return self._decode(name, self._files.read(name))

    def list(self) -> Sequence[record_store.StoredRecord]:
        """Return all records."""
        scan = self._files.scan(self._files.names())
        return [self._decode(name, content) for name, content in scan if content is not None]

    def find(self, session_uuid: SessionUuid) -> record_store.StoredRecord | None:
        """Return the record of a session, or None if it does not exist."""
        return next((stored for stored in self.list() if stored.record.session_uuid == session_uuid), None)

    def list_of_principal(self, principal: Principal) -> Sequence[record_store.StoredRecord]:
        """Return all records of a principal.

        Only these records, and records that this process has not read before, are read.
        """
        names = self._files.names()
        known = self._index.entries(names)
        candidates = [name for name in names if name not in known or known[name].principal == principal]
        return [stored for stored in self._read_existing(candidates) if stored.record.principal == principal]

    def list_held(self, replica: ReplicaId) -> Sequence[record_store.StoredRecord]:
        """Return all records that have a replica among their holders.

        Only these records, and records that have changed since this process read them, are read.
        """
        names = self._files.names()
        others = {
            name: entry.version for name, entry in self._index.entries(names).items() if replica not in entry.holders
        }
        scan = self._files.scan(names, others.get)
        found = (self._decode(name, content) for name, content in scan if content is not None)
        return [stored for stored in found if replica in stored.record.holders]

    def watch(self, stop: threading.Event, replica: ReplicaId | None = None) -> Iterator[record_store.RecordsEvent]:
        """Yield the differences between successive scans until ``stop`` is set.

        Only records whose version has changed are read.
        """
        return record_store.filter_events(self._watch(stop, replica), replica)

    def replace(self, record: SessionRecord, version: record_store.Version) -> record_store.StoredRecord:
        """Replace a record that still has the given version."""
        return record_store.StoredRecord(record, self._files.replace(record.name, encode_record(record), version))

    def delete(self, name: RecordName, version: record_store.Version) -> None:
        """Delete a record that still has the given version."""
        self._files.delete(name, version)

    def _watch(self, stop: threading.Event, replica: ReplicaId | None) -> Iterator[record_store.RecordsEvent]:
        """Yield a list of the records that concern a replica, and then all changes."""
        versions: dict[RecordName, record_store.Version] | None = None
        while not stop.is_set():
            begun_seconds = time.monotonic()
            try:
                if versions is None:
                    versions = {}
                    yield record_store.RecordsListed(
                        tuple(
                            event.stored
                            for event in self._changes(versions)
                            if isinstance(event, record_store.RecordChanged)
                            and record_store.concerns(event.stored.record, replica)
                        )
                    )
                else:
                    yield from self._changes(versions)
            except record_store.RecordsUnavailableError as error:
                versions = None
                yield record_store.RecordsUnreachable(str(error))
            took_seconds = time.monotonic() - begun_seconds
            stop.wait(max(self._poll_seconds, took_seconds * _PAUSE_FACTOR))

    def _changes(
        self, versions: MutableMapping[RecordName, record_store.Version]
    ) -> Iterator[record_store.RecordChanged | record_store.RecordGone]:
        """Yield the changes since a scan that found the given versions, and update the versions."""
        found: set[RecordName] = set()
        for name, content in self._files.scan(self._files.names(), versions.get):
            found.add(name)
            if content is not None:
                stored = self._decode(name, content)
                versions[name] = stored.version
                yield record_store.RecordChanged(stored)
        for name in versions.keys() - found:
            del versions[name]
            yield record_store.RecordGone(name)

    def _read_existing(self, names: Iterable[RecordName]) -> Iterator[record_store.StoredRecord]:
        for name in names:
            with suppress(record_store.RecordNotFoundError):
                yield self.read(name)

    def _decode(self, name: RecordName, content: Content) -> record_store.StoredRecord:
        stored = _stored(name, content)
        self._index.add(stored)
        return stored


def _stored(name: RecordName, content: Content) -> record_store.StoredRecord:
    try:
        record = decode_record(content.content)
        if record.name != name:
            raise ValueError("it is the record of another session")
    except ValueError as error:
        raise record_store.RecordsUnavailableError(
            name,
            f"The session record [{content.file}] is damaged: {error}. Restore the record, or remove its directory.",
        ) from error
    return record_store.StoredRecord(record, content.version)
