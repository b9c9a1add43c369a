"""Session locations: the places that hold sessions' temporary tables.

Why it exists: gateway and reaper must make, find and remove session locations in the same way, and a removal
must be safe while a late task still writes, while another process removes the same thing, and when someone
put a link in the way. So nothing is removed in its place: it is set aside by one step that cannot be seen half
done, and purged afterwards.

There are two implementations: :mod:`workspace.files.session_locations` for directories of a file system and
:mod:`workspace.object_store.session_locations` for prefixes of a bucket.
One suite of tests checks both.

Guarantees of both:

1. Only names that are canonical UUIDs become places; anything else raises ValueError.
2. Nothing outside of a session location is ever removed with it, whatever its owner put into it.
3. Setting aside is one step. A location that was set aside is in no later :meth:`SessionLocations.list`, and a table
   that was is in no later :meth:`RootContents.inside`, until a late writer makes something there after the purge.
4. Everything may be repeated, stopped at any instruction, and done by several processes at once: that something is gone
   already is no error, and what one left undone the next one does.
5. What looks over all roots fails if one of them cannot be read, or is not the one that it was;
   see :mod:`workspace.files.roots`. No answer ever stands for a root that was not asked. An empty or foreign
   file system in the place of a root is an error, never a workspace without sessions.

Not guaranteed: that a late writer does not make a location again after it was set aside; the reaper finds it
as an orphan.

All methods block, and raise OSError when the storage fails. Safe to share between threads.

Source: design, "Temporary tables" and "Session records, leases and the reaper"; seed 001, 5.1.4 and 5.1.5.
"""

from collections.abc import Callable, Hashable, Sequence, Set
from dataclasses import dataclass
from typing import Protocol

from workspace.records import SessionUuid, TableUuid
from workspace.storage_paths import StoragePath
from workspace.trash_entries import TrashEntry


class OwnerError(PermissionError):
    """A session location belongs to somebody else."""


@dataclass(frozen=True, slots=True)
class Owner:
    """An OS user whom a session location belongs to."""

    uid: int
    gid: int


@dataclass(frozen=True, slots=True)
class LocationContents:
    """What is in a session location.

    Attributes:
        tables: The directories whose names can be those of tables.
        foreign_count: How many others there are.
    """

    tables: Set[TableUuid]
    foreign_count: int


class RootContents(Protocol):
    """What lies in the session locations of one root."""

    def stamp(self, session_uuid: SessionUuid) -> Hashable:
        """Differs after any change of the names in a location; its owner cannot set it back. None if there is none."""
        ...

    def contents(self, session_uuid: SessionUuid) -> LocationContents:
        """What is in a location; of very many directories, some. Of none, nothing. Raises: OSError."""
        ...


class SessionLocations(Protocol):
    """The session locations of the default temporary workspace, wherever it was."""

    def initialise(self) -> None:
        """Makes what is missing of Lodge's own; to be called when a process starts.

        Raises: RootError if the root is not the one that it was, or another Lodge's.
        """
        ...

    def set_current_root(self, root: StoragePath) -> None:
        """Makes a root the current one; new locations are made there from now on.

        Raises: RootError if it cannot be used; the current root stays as it was.
        """
        ...

    def known_roots(self) -> Sequence[StoragePath]:
        """Where session locations may lie, the current root first, readable or not.

        Raises: RootError if the current root is not what it was.
        """
        ...

    def roots(self) -> Sequence[RootContents]:
        """All roots, the current one first. Raises: RootError if one cannot be read."""
        ...

    def create(self, session_uuid: SessionUuid, owner: Owner | None = None) -> StoragePath:
        """Makes the session location in the current root, or takes the one that is there.

        Args:
            session_uuid: Whose it is.
            owner: The OS user it is for, from the moment that it can be seen; None for the user of this process.

        Raises: OSError, also if there is something else in its place; OwnerError if it is another user's; RootError.
        """
        ...

    def list(self) -> Set[SessionUuid]:
        """The sessions that have a location."""
        ...

    def paths(self, session_uuid: SessionUuid) -> Sequence[StoragePath]:
        """The locations of a session that are there."""
        ...

    def move_to_trash(self, session_uuid: SessionUuid) -> Sequence[StoragePath]:
        """Puts the locations of a session into the trash.

        Returns: Where they were; nothing if there was nothing.
        """
        ...

    def remove_table(self, session_uuid: SessionUuid, table_uuid: TableUuid) -> bool:
        """Puts one table's directory into the trash.

        Returns: False if there was nothing.
        """
        ...

    def table_paths(self, session_uuid: SessionUuid, tables: Sequence[TableUuid]) -> Sequence[StoragePath]:
        """The directories of several, as :meth:`directory` finds each."""
        ...

    def size_bytes(self, session_uuid: SessionUuid, table_uuid: TableUuid) -> int:
        """The sizes of all regular files of a table.

        Raises: FileNotFoundError if its directory is not there; OSError if it is deeper than a table can be.
        """
        ...

    def copy_table(self, source: tuple[SessionUuid, TableUuid], target: tuple[SessionUuid, TableUuid]) -> None:
        """Gives a session whose location is there a copy of a table, without moving bytes where the storage can.

        Raises: FileNotFoundError if the table is gone, or went meanwhile; OSError.
        """
        ...

    def trash(self) -> Sequence[TrashEntry]:
        """All that was set aside and not purged yet."""
        ...

    def trash_of(self, session_uuid: SessionUuid) -> Sequence[TrashEntry]:
        """What was set aside of one session, and not purged yet."""
        ...

    def purge(self, entry: TrashEntry, should_stop: Callable[[], bool] | None = None) -> bool:
        """Removes something from the trash for good; may take long.

        Args:
            entry: As :meth:`trash` returned it.
            should_stop: Asked again and again, from several threads; once it says yes, the purge ends soon, and what
                is left stays in the trash.

        Returns: Whether all of it is gone.
        Raises: OSError for the first thing that could not be removed, after trying all the others.
        """
        ...
