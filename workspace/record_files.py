"""Session records as files on the workspace's storage: the default where there is no Kubernetes.

Why it exists: Lodge must run, and be proved, with nothing but a shared directory. How files are changed by
compare-and-swap, and what holds after a crash, is :mod:`workspace.versioned_files`; this module is what
stands in them.

Guarantees beside those of :mod:`workspace.records`:

1. A record that is damaged, or of an unknown format, makes reading fail with RecordsUnavailableError that
   names the file, also in ``list``: nobody may conclude from it that a session does not exist.
2. A record is only accepted from the place that its own identity names.
"""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from workspace.layout import Layout
from workspace.record_json import decoded, encoded
from workspace.records import (
    RecordName,
    RecordsUnavailableError,
    SessionRecord,
    StoredRecord,
    Version,
)
from workspace.versioned_files import Content, VersionedFiles


class FileSessionRecords:
    """Implements :class:`workspace.records.SessionRecords`; safe to share between threads.

    Args:
        root: The root of the default temporary workspace, initialised by
            :meth:`workspace.locations.SessionLocations.initialise`.
        monotonic: A clock, in seconds.
    """

    def __init__(self, root: Path, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._files = VersionedFiles(Layout.below(root), monotonic)

    def create(self, record: SessionRecord) -> StoredRecord:
        return StoredRecord(record, self._files.create(record.name, encoded(record)))

    def read(self, name: RecordName) -> StoredRecord:
        return _stored(name, self._files.read(name))

    def list(self) -> Sequence[StoredRecord]:
        return [_stored(name, content) for name, content in self._files.list()]

    def replace(self, record: SessionRecord, version: Version) -> StoredRecord:
        return StoredRecord(record, self._files.replace(record.name, encoded(record), version))

    def delete(self, name: RecordName, version: Version) -> None:
        self._files.delete(name, version)


def _stored(name: RecordName, content: Content) -> StoredRecord:
    try:
        record = decoded(content.content)
        if record.name != name:
            raise ValueError("it is the record of another session")
    except ValueError as error:
        raise RecordsUnavailableError(
            name,
            f"The session record {content.file} is damaged: {error}. Restore it, or remove its directory.",
        ) from error
    return StoredRecord(record, content.version)
