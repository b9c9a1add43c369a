"""Session locations, which contain the temporary tables of sessions.

Gateway and reaper must create, find and remove session locations in the same way. A removal must be safe while a late
task still writes, while another process removes the same location, and when someone put a link in the way. So nothing
is removed in place: one atomic step moves it to the trash, and a purge removes it later.

There are two implementations, checked by one contract test suite: :mod:`workspace.files.session_locations` for
directories of a file system, and :mod:`workspace.object_store.session_locations` for prefixes of a bucket.

Guarantees of both:

1. Only canonical UUIDs become parts of paths; anything else raises ValueError.
2. Removing a session location never removes anything outside it, whatever its owner stored in it.
3. Moving to the trash is one step. After it, :meth:`SessionLocations.list` no longer returns the location, and
   :meth:`RootContents.contents` no longer returns the table, until a late writer creates it again after the purge.
4. Every operation may be repeated, stopped at any instruction, and run by several processes concurrently. A target that
   is already gone is no error, and the next caller completes what another one left unfinished.
5. An operation over all roots fails if one root cannot be read or was replaced; see :mod:`workspace.files.roots`. An
   empty or foreign file system in the place of a root is an error, never a workspace without sessions.

Not guaranteed: that a late writer does not create a removed location again. The reaper finds it as an orphan.

All methods block, and raise OSError when the storage fails. They are safe to share between threads.

Source: [architecture "Temporary tables"], [architecture "Session records, leases and the reaper"],
[temporary-tables §5.1.4], [temporary-tables §5.1.5].
"""

from collections.abc import Callable, Hashable, Sequence, Set
from dataclasses import dataclass
from typing import Protocol

from workspace.identifiers import SessionUuid, TableUuid
from workspace.storage_paths import StoragePath
from workspace.trash_entries import TrashEntry


class OwnerError(PermissionError):
    """The session location belongs to another OS user."""


@dataclass(frozen=True, slots=True)
class Owner:
    """The OS user that a session location belongs to."""

    uid: int
    gid: int


@dataclass(frozen=True, slots=True)
class LocationContents:
    """The directories in a session location.

    Attributes:
        tables: The directories whose names can be those of tables.
        foreign_count: The number of other directories.
    """

    tables: Set[TableUuid]
    foreign_count: int


class RootContents(Protocol):
    """The contents of the session locations of one root."""

    def stamp(self, session_uuid: SessionUuid) -> Hashable:
        """Return a value that differs after any change of the names in a location.

        Returns None if there is no location.

        The owner of the location cannot restore an earlier value.
        """
        ...

    def contents(self, session_uuid: SessionUuid) -> LocationContents:
        """Return the directories in a location.

        Returns a part of them if there are very many, and none if there is no location.

        Raises:
            OSError: If the location cannot be read.
        """
        ...


class SessionLocations(Protocol):
    """The session locations in all roots of the default temporary workspace."""

    def initialise(self) -> None:
        """Create Lodge's own files where they are missing.

        Each process calls this when it starts.

        Raises:
            RootError: If the root was replaced, or belongs to another Lodge.
        """
        ...

    def set_current_root(self, root: StoragePath) -> None:
        """Create new locations in another root from now on.

        Raises:
            RootError: If the root cannot be used; the current root then stays.
        """
        ...

    def known_roots(self) -> Sequence[StoragePath]:
        """Return all roots, readable or not; the current one first.

        Raises:
            RootError: If the current root was replaced.
        """
        ...

    def roots(self) -> Sequence[RootContents]:
        """Return the contents of all roots, the current one first.

        Raises:
            RootError: If a root cannot be read.
        """
        ...

    def create(self, session_uuid: SessionUuid, owner: Owner | None = None) -> StoragePath:
        """Create the session location in the current root, or return the existing one.

        Args:
            session_uuid: The session.
            owner: The OS user that owns the location from the moment it is visible; None for the user of this process.

        Raises:
            OwnerError: If the location belongs to another OS user.
            RootError: If the current root was replaced.
            OSError: If the location cannot be created, also because something else has its name.
        """
        ...

    def list(self) -> Set[SessionUuid]:
        """Return the sessions that have a location."""
        ...

    def paths(self, session_uuid: SessionUuid) -> Sequence[StoragePath]:
        """Return the existing locations of a session."""
        ...

    def move_to_trash(self, session_uuid: SessionUuid) -> Sequence[StoragePath]:
        """Move the locations of a session to the trash.

        Returns:
            The former paths; empty if there was no location.
        """
        ...

    def remove_table(self, session_uuid: SessionUuid, table_uuid: TableUuid) -> bool:
        """Move the directory of a table to the trash.

        Returns:
            False if there was no such directory.
        """
        ...

    def table_paths(self, session_uuid: SessionUuid, tables: Sequence[TableUuid]) -> Sequence[StoragePath]:
        """Return the directory of each table.

        A missing directory counts as one of the current root.
        """
        ...

    def size_bytes(self, session_uuid: SessionUuid, table_uuid: TableUuid) -> int:
        """Return the total size of the files of a table.

        Raises:
            FileNotFoundError: If the table has no directory.
            OSError: If the directory is deeper than a table can be.
        """
        ...

    def copy_table(self, source: tuple[SessionUuid, TableUuid], target: tuple[SessionUuid, TableUuid]) -> None:
        """Copy a table to another session that has a location.

        The storage moves no bytes if it can avoid it.

        Raises:
            FileNotFoundError: If the table is gone, or was removed during the copy.
            OSError: If the table cannot be copied.
        """
        ...

    def trash(self) -> Sequence[TrashEntry]:
        """Return everything in the trash."""
        ...

    def trash_of(self, session_uuid: SessionUuid) -> Sequence[TrashEntry]:
        """Return what the trash contains of one session."""
        ...

    def purge(self, entry: TrashEntry, should_stop: Callable[[], bool] = lambda: False) -> bool:
        """Remove an entry of the trash for good; may take long.

        Args:
            entry: An entry that :meth:`trash` returned.
            should_stop: Called repeatedly, from several threads. When it returns True, the purge stops soon, and the
                rest stays in the trash.

        Returns:
            Whether the entry is gone.

        Raises:
            OSError: If something could not be removed. The first such error, raised after trying all the rest.
        """
        ...
