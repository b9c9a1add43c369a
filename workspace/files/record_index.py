"""An in-memory index of session records, so that not every operation reads all of them.

Reading ten thousand records takes more than a second, because each must be opened and decoded. To find the records of a
principal or a replica, most of them need not be read: the principal of a record name never changes, and a record with a
known version has known holders.

The index contains what this process has read, which may be outdated. Therefore, a reader compares the version of an
entry with the storage before it relies on the holders.
"""

import threading
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from workspace.identifiers import Principal, RecordName, ReplicaId
from workspace.record_store import StoredRecord, Version


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """What is known about a record.

    Attributes:
        version: The version that was read.
        principal: The principal. It is the same in all versions of a record name.
        holders: The holders in this version.
    """

    version: Version
    principal: Principal
    holders: tuple[ReplicaId, ...]


class RecordIndex:
    """The known records by name. It is safe for use by several threads."""

    def __init__(self) -> None:
        self._entries: dict[RecordName, IndexEntry] = {}
        self._lock = threading.Lock()

    def add(self, stored: StoredRecord) -> None:
        """Add a record that was read."""
        record = stored.record
        with self._lock:
            self._entries[record.name] = IndexEntry(stored.version, record.principal, tuple(record.holders))

    def entries(self, names: Collection[RecordName]) -> Mapping[RecordName, IndexEntry]:
        """Return the entries of existing records, and remove all others from the index.

        Args:
            names: The names of all records that exist.
        """
        with self._lock:
            for name in self._entries.keys() - names:
                del self._entries[name]
            return self._entries.copy()
