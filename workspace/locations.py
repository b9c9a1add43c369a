"""Session locations, which contain the temporary tables of sessions.

The gateway and the reaper must create, find and remove session locations in the same way. A removal must be safe while
a late task still writes to the location, while another process removes the same location, and even if someone replaced
a directory with a link. For this reason, nothing is removed in its original place. A single atomic step moves a
location or table to the trash, and a purge removes it from the trash later.

There are two implementations. :mod:`workspace.files.session_locations` stores locations as directories on a file
system, and :mod:`workspace.object_store.session_locations` stores them as key prefixes in a bucket. The same contract
tests check both.

Guarantees of both implementations:

1. Only canonical UUIDs are used in paths. Other identifiers raise ValueError.
2. Removing a session location never removes anything outside the location, regardless of what its owner stored in it.
3. Moving to the trash is a single step. After that step, :meth:`SessionLocations.list` no longer returns the location,
   and :meth:`RootContents.contents` no longer returns the table. They can reappear only if a late writer creates them
   again after the purge.
4. Every operation can be repeated, can be stopped at any instruction, and can run in several processes concurrently. A
   target that does not exist is not an error. If an operation was interrupted, the next caller completes it.
5. An operation on all roots fails if a root cannot be read or was replaced; see :mod:`workspace.files.roots`. If an
   empty or foreign file system is mounted in place of a root, an error is raised. It is never treated as a workspace
   without sessions.

Not guaranteed: A late writer may create a removed location again. The reaper then finds the location as an orphan.

All methods block, raise OSError if the storage fails, and are safe to call from several threads.

Source: [architecture "Temporary tables"], [architecture "Session records, leases and the reaper"], [temporary-tables
§5.1.4], [temporary-tables §5.1.5].
"""

from collections.abc import Callable, Hashable, Sequence, Set
from dataclasses import dataclass
from typing import BinaryIO, Protocol

from workspace.identifiers import SessionUuid, TableUuid
from workspace.storage_paths import StoragePath
from workspace.trash_entries import TrashEntry


class OwnerError(PermissionError):
    """Raised if a session location belongs to another OS user."""


@dataclass(frozen=True, slots=True)
class Owner:
    """The OS user and group that own a session location."""

    uid: int
    gid: int


@dataclass(frozen=True, slots=True)
class LocationContents:
    """The directories in a session location.

    Attributes:
        tables: The names of the directories that may contain tables.
        foreign_count: The number of other directories.
    """

    tables: Set[TableUuid]
    foreign_count: int


class RootContents(Protocol):
    """The session locations in one root, for reading."""

    def stamp(self, session_uuid: SessionUuid) -> Hashable:
        """Return a value that changes when names in a session location change.

        The owner of the location cannot restore an earlier value. Returns None if the location does not exist.
        """
        ...

    def contents(self, session_uuid: SessionUuid) -> LocationContents:
        """Return the directories in a session location.

        The result is incomplete if the location has very many directories. It is empty if the location does not exist.

        Raises:
            OSError: If the location cannot be read.
        """
        ...


class SessionLocations(Protocol):
    """The session locations in all roots of the default temporary workspace."""

    def initialise(self) -> None:
        """Create Lodge's own files in the current root if they are missing.

        Each process calls this method when it starts.

        Raises:
            RootError: If the root was replaced or belongs to another Lodge installation.
        """
        ...

    def set_current_root(self, root: StoragePath) -> None:
        """Set the root in which new session locations are created.

        Raises:
            RootError: If the root cannot be used. In this case, the current root does not change.
        """
        ...

    def known_roots(self) -> Sequence[StoragePath]:
        """Return all roots, including unreadable ones. The current root is first.

        Raises:
            RootError: If the current root was replaced.
        """
        ...

    def roots(self) -> Sequence[RootContents]:
        """Return the contents of all roots. The current root is first.

        Raises:
            RootError: If a root cannot be read.
        """
        ...

    def create(self, session_uuid: SessionUuid, owner: Owner | None = None) -> StoragePath:
        """Create a session location in the current root, or return the existing one.

        Args:
            session_uuid: The session that uses the location.
            owner: The OS user that owns the location from the moment at which it becomes visible. None means the user
                of this process.

        Raises:
            OwnerError: If the location exists and belongs to another OS user.
            RootError: If the current root was replaced.
            OSError: If the location cannot be created, for example because a file has the same name.
        """
        ...

    def create_table(self, session_uuid: SessionUuid, table_uuid: TableUuid, file: Sequence[str]) -> None:
        """Create the directory of a table in an existing location, with an empty file in it.

        The directories and the file belong to the OS user that owns the location.

        Args:
            session_uuid: The session.
            table_uuid: The table.
            file: The path of the file below the directory of the table, as a sequence of names.

        Raises:
            ValueError: If a name is empty or has a slash, or is a dot or two.
            FileNotFoundError: If the location does not exist.
        """
        ...

    def list(self) -> Set[SessionUuid]:
        """Return the sessions that have a session location."""
        ...

    def paths(self, session_uuid: SessionUuid) -> Sequence[StoragePath]:
        """Return the paths of all existing locations of a session."""
        ...

    def move_to_trash(self, session_uuid: SessionUuid) -> Sequence[StoragePath]:
        """Move all locations of a session to the trash.

        Returns:
            The former paths of the locations. The result is empty if the session had no location.
        """
        ...

    def remove_table(self, session_uuid: SessionUuid, table_uuid: TableUuid) -> bool:
        """Move the directory of a table to the trash.

        Returns:
            False if the table had no directory.
        """
        ...

    def table_paths(self, session_uuid: SessionUuid, tables: Sequence[TableUuid]) -> Sequence[StoragePath]:
        """Return the path of each table's directory.

        If the directory of a table does not exist, its path in the current root is returned.
        """
        ...

    def size_bytes(self, session_uuid: SessionUuid, table_uuid: TableUuid) -> int:
        """Return the total size of a table's files.

        Raises:
            FileNotFoundError: If the table has no directory.
            OSError: If the directory is nested more deeply than the directory of a table can be.
        """
        ...

    def sum_data_files(
        self, session_uuid: SessionUuid, table_uuid: TableUuid, measure: Callable[[BinaryIO], int]
    ) -> int | None:
        """Return the sum of a measure over the files of a table that Spark reads.

        Args:
            session_uuid: The session.
            table_uuid: The table.
            measure: A function that returns the measure of an open file.

        Returns:
            The sum. None if the storage is no file system.

        Raises:
            FileNotFoundError: If the table has no directory, or a file was removed during the call.
            OSError: If a file cannot be opened, or the directory is nested more deeply than the directory of a table
                can be.
        """
        ...

    def copy_table(self, source: tuple[SessionUuid, TableUuid], target: tuple[SessionUuid, TableUuid]) -> None:
        """Copy a table into the existing location of another session.

        If possible, the storage does not copy the data itself.

        Raises:
            FileNotFoundError: If the table does not exist or was removed during the copy.
            OSError: If the table cannot be copied.
        """
        ...

    def trash(self) -> Sequence[TrashEntry]:
        """Return all entries of the trash in all roots."""
        ...

    def trash_of(self, session_uuid: SessionUuid) -> Sequence[TrashEntry]:
        """Return the entries of the trash that belonged to a session."""
        ...

    def purge(self, entry: TrashEntry, should_stop: Callable[[], bool] = lambda: False) -> bool:
        """Permanently remove an entry of the trash. This may take a long time.

        Args:
            entry: An entry that :meth:`trash` returned.
            should_stop: A function that is called repeatedly, from several threads. When it returns True, the purge
                stops soon and the remaining files stay in the trash.

        Returns:
            Whether the entry was removed completely.

        Raises:
            OSError: If some files could not be removed. All other files are removed first, and the first error is
                raised.
        """
        ...
