"""The names of entries in the trash of a root.

The last part of an entry's name is ``<session uuid>.<suffix>`` for a session location, and ``<session uuid>.<table
uuid>.<suffix>`` for a table.
"""

from pathlib import Path
from typing import NewType

from workspace.identifiers import SessionUuid
from workspace.storage_paths import StoragePath

TrashEntry = NewType("TrashEntry", str)
"""The absolute path or URI of a session location or table in the trash."""


def session_of(entry: TrashEntry) -> SessionUuid:
    """Return the session to which an entry of the trash belonged.

    If Lodge did not create the entry, the result may not be a UUID.
    """
    return SessionUuid(_name(entry).partition(".")[0])


def is_whole_location(entry: TrashEntry) -> bool:
    """Return whether an entry is a complete session location and not a single table."""
    return _name(entry).count(".") == 1


def location_of(entry: TrashEntry) -> StoragePath:
    """Return the path that a session location had before it was moved to the trash."""
    if entry.startswith("/"):
        return Path(entry).parents[2] / session_of(entry)
    return f"{entry.rsplit('/', 3)[0]}/{session_of(entry)}"


def _name(entry: TrashEntry) -> str:
    return entry.rpartition("/")[2]
