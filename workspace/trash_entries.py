"""Entries of the trash."""

from pathlib import Path
from typing import NewType

from workspace.records import SessionUuid
from workspace.storage_paths import StoragePath

TrashEntry = NewType("TrashEntry", str)
"""The absolute path, or the URI, of something that was set aside; what follows its last slash begins with the UUID of
the session whose thing it was."""


def session_of(entry: TrashEntry) -> SessionUuid:
    """The session whose thing was set aside; of anything else, no UUID."""
    return SessionUuid(_name(entry).partition(".")[0])


def is_whole_location(entry: TrashEntry) -> bool:
    """Whether something that was set aside of a session is its location, not a single table."""
    return _name(entry).count(".") == 1


def location_of(entry: TrashEntry) -> StoragePath:
    """Where a whole location was before it was set aside."""
    if entry.startswith("/"):
        return Path(entry).parents[2] / session_of(entry)
    return f"{entry.rsplit('/', 3)[0]}/{session_of(entry)}"


def _name(entry: TrashEntry) -> str:
    return entry.rpartition("/")[2]
