"""Session locations as directories on a file system.

For the interface, see :mod:`workspace.locations`.

A location or table is removed in two steps. An atomic rename moves it to the trash, and a purge removes it from the
trash later. The default temporary workspace can move while sessions are open [temporary-tables §5.1.5], so a session
can have locations in several roots. New locations are created in the current root. Existing locations are found in all
roots.

Guarantees in addition to the guarantees of :mod:`workspace.locations`:

1. No operation follows a link that is a session location or is inside a session location, even if another owner
   replaces directories with links at the same time. If a link is to be removed, the link itself is removed and its
   target is not changed.
2. In each root, moving to the trash is atomic. A reader sees the complete location or no location. Nothing is ever
   moved out of the trash.
3. A session location has mode 0700, independent of the umask.

Not guaranteed: See :mod:`workspace.files.trash`.
"""

from collections.abc import Callable, Mapping, Sequence, Set
from pathlib import Path
from types import MappingProxyType
from typing import BinaryIO

from workspace.files.layout import Layout
from workspace.files.root_locations import RootLocations
from workspace.files.roots import Roots
from workspace.files.table_files import copy_table
from workspace.identifiers import SessionUuid, TableUuid, check_uuid
from workspace.locations import Owner
from workspace.root_identities import RootError, RootIds
from workspace.storage_paths import StoragePath
from workspace.trash_entries import TrashEntry


class FileSessionLocations:
    """The session locations in all roots of the default temporary workspace.

    Args:
        root: The current root. It must be the same for all replicas and reapers.
        home: The root with the session records and leases (:func:`workspace.files.roots.home_of`). None means
            ``root``.
        root_ids: The registry of root ids. None if ids are stored only in the roots.
        seen_ids: The ids that a former process has found, by root.

    Attributes:
        home: The root with the session records and leases.
    """

    def __init__(
        self,
        root: Path,
        home: Path | None = None,
        root_ids: RootIds | None = None,
        seen_ids: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._root = Layout(root).root
        self.home = Layout(self._root if home is None else home).root
        self._roots = Roots(self.home, root_ids, seen_ids)

    @property
    def seen_ids(self) -> Mapping[str, str]:
        """The ids of roots that this process or a former one has found, by root."""
        return self._roots.seen_ids

    def initialise(self) -> None:
        """Create the root and Lodge's own directories if they are missing.

        Each process calls this method when it starts.
        """
        self._roots.add(self._root)

    def set_current_root(self, root: StoragePath) -> None:
        """Set the root in which new session locations are created.

        Raises:
            RootError: If the root cannot be used. In this case, the current root does not change.
        """
        if not isinstance(root, Path):
            raise RootError(
                f"The workspace cannot move from [{self._root}] to [{root}] while it is in use. "
                "Restart Lodge to change it."
            )
        self._roots.add(root)
        self._root = Layout(root).root

    def roots(self) -> Sequence[RootLocations]:
        """Return the session locations of all roots. The current root is first.

        Raises:
            RootError: If a root cannot be read.
        """
        current = self._root
        others = (root for root in self._roots.all() if root != current)
        return [RootLocations(Layout(root)) for root in (current, *others)]

    def known_roots(self) -> Sequence[Path]:
        """Return all roots, including unreadable ones. The current root is first.

        Raises:
            RootError: If the current root was replaced.
        """
        current = self._root
        self._roots.check(current)
        return [current, *(root for root in self._roots.registered() if root != current)]

    def path(self, session_uuid: SessionUuid) -> Path:
        """Return the path of a session location in the current root."""
        return RootLocations(Layout(self._root)).path(session_uuid)

    def create(self, session_uuid: SessionUuid, owner: Owner | None = None) -> Path:
        """Create a session location in the current root, or return the existing one.

        Args:
            session_uuid: The session that uses the location.
            owner: The OS user that owns the location from the moment at which it becomes visible. None means the user
                of this process.

        Raises:
            NotADirectoryError: If a link or a file has the name of the location.
            OwnerError: If the location exists and belongs to another OS user.
            RootError: If the current root was replaced.
        """
        root = self._root
        self._roots.check(root)
        return RootLocations(Layout(root)).create(session_uuid, owner)

    def create_table(self, session_uuid: SessionUuid, table_uuid: TableUuid, file: Sequence[str]) -> None:
        """Create the directory of a table in the location in the current root, with an empty file in it."""
        self._roots.check(self._root)
        RootLocations(Layout(self._root)).create_table(session_uuid, table_uuid, file)

    def list(self) -> Set[SessionUuid]:
        """Return the sessions that have a session location. Links are ignored."""
        return {session_uuid for root in self.roots() for session_uuid in root.list()}

    def paths(self, session_uuid: SessionUuid) -> Sequence[Path]:
        """Return the paths of all existing locations of a session."""
        return [root.path(session_uuid) for root in self.roots() if root.stamp(session_uuid) is not None]

    def move_to_trash(self, session_uuid: SessionUuid) -> Sequence[Path]:
        """Move all locations of a session to the trash, and return their former paths."""
        return [root.path(session_uuid) for root in self.roots() if root.move_to_trash(session_uuid)]

    def remove_table(self, session_uuid: SessionUuid, table_uuid: TableUuid) -> bool:
        """Move the directory of a table to the trash.

        Returns:
            False if the table had no directory.

        Raises:
            NotADirectoryError: If a link or a file has the name of the session location.
        """
        removed = [root.remove_table(session_uuid, table_uuid) for root in self.roots()]
        return any(removed)

    def table_paths(self, session_uuid: SessionUuid, tables: Sequence[TableUuid]) -> Sequence[Path]:
        """Return the path of each table's directory.

        If the directory of a table does not exist, its path in the current root is returned.
        """
        roots = self.roots()
        return [_root_of(roots, session_uuid, each).table(session_uuid, each) for each in tables]

    def size_bytes(self, session_uuid: SessionUuid, table_uuid: TableUuid) -> int:
        """Return the total size of a table's regular files.

        Raises:
            FileNotFoundError: If the table has no directory.
            OSError: If the directory is nested more deeply than the directory of a table can be.
        """
        return _root_of(self.roots(), session_uuid, table_uuid).size_bytes(session_uuid, table_uuid)

    def sum_data_files(
        self, session_uuid: SessionUuid, table_uuid: TableUuid, measure: Callable[[BinaryIO], int]
    ) -> int:
        """Return the sum of a measure over the files of a table that Spark reads.

        Raises:
            FileNotFoundError: If the table has no directory, or a file was removed during the call.
            OSError: If a file cannot be opened, or the directory is nested more deeply than the directory of a table
                can be.
        """
        return _root_of(self.roots(), session_uuid, table_uuid).sum_data_files(session_uuid, table_uuid, measure)

    def copy_table(self, source: tuple[SessionUuid, TableUuid], target: tuple[SessionUuid, TableUuid]) -> None:
        """Copy a table into the existing location of another session.

        If the file system supports hard links, the data itself is not copied.

        Raises:
            FileNotFoundError: If the table does not exist or was removed during the copy.
            OSError: If the table cannot be copied.
        """
        session_uuid, table_uuid = target
        copy_table(_root_of(self.roots(), *source).table(*source), self.path(session_uuid) / check_uuid(table_uuid))

    def trash(self) -> Sequence[TrashEntry]:
        """Return all entries of the trash in all roots."""
        return [entry for root in self.roots() for entry in root.trash.entries()]

    def trash_of(self, session_uuid: SessionUuid) -> Sequence[TrashEntry]:
        """Return the entries of the trash that belonged to a session."""
        check_uuid(session_uuid)
        return [entry for root in self.roots() for entry in root.trash.entries_of(session_uuid)]

    def purge(self, entry: TrashEntry, should_stop: Callable[[], bool] = lambda: False) -> bool:
        """Permanently remove an entry of the trash, however deeply it is nested.

        This may take a long time.

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
        trash = next((root.trash for root in self.roots() if root.trash.has(entry)), None)
        if trash is None:
            raise ValueError(f"The path {entry!r} is not an entry of the trash.")
        return trash.purge(entry, should_stop)


def _root_of(roots: Sequence[RootLocations], session_uuid: SessionUuid, table_uuid: TableUuid) -> RootLocations:
    return next((root for root in roots if root.has_table(session_uuid, table_uuid)), roots[0])
