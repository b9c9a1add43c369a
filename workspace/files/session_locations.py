"""Session locations as directories of a file system.

See :mod:`workspace.locations` for the interface.

A removal first moves its target to the trash by one atomic rename, and purges it later. The default temporary workspace
may move while sessions live [temporary-tables §5.1.5], so a session can have a location in each of several roots. New
locations are created in the current root, and found in all roots.

Guarantees in addition to those of all session locations:

1. No operation follows a link at or below a session location, even if another owner replaces directories with links at
   that moment. If the target of a removal is a link, the link is removed and its target stays.
2. Moving to the trash is atomic in each root: a reader sees the complete location or none. Nothing leaves the trash.
3. A session location has mode 0700, independent of the umask.

Not guaranteed: what :mod:`workspace.files.trash` does not guarantee.
"""

from collections.abc import Callable, Sequence, Set
from pathlib import Path

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
        root: The current root; the same for all replicas and reapers.
        home: The root with the session records and leases (:func:`workspace.files.roots.home_of`); None if that is
            ``root``.
        root_ids: The registry of root ids; None if the ids are stored only in the roots.

    Attributes:
        home: The root with the session records and leases.
    """

    def __init__(self, root: Path, home: Path | None = None, root_ids: RootIds | None = None) -> None:
        self._root = Layout(root).root
        self.home = Layout(self._root if home is None else home).root
        self._roots = Roots(self.home, root_ids)

    def initialise(self) -> None:
        """Create the root and Lodge's own directories where they are missing.

        Each process calls this when it starts.
        """
        self._roots.add(self._root)

    def set_current_root(self, root: StoragePath) -> None:
        """Create new locations in another root from now on.

        Raises:
            RootError: If the root cannot be used; the current root then stays.
        """
        if not isinstance(root, Path):
            raise RootError(
                f"The workspace cannot move from [{self._root}] to [{root}] while it is in use. "
                "Restart Lodge to change it."
            )
        self._roots.add(root)
        self._root = Layout(root).root

    def roots(self) -> Sequence[RootLocations]:
        """Return the locations of all roots, the current one first.

        Raises:
            RootError: If a root cannot be read.
        """
        current = self._root
        others = (root for root in self._roots.all() if root != current)
        return [RootLocations(Layout(root)) for root in (current, *others)]

    def known_roots(self) -> Sequence[Path]:
        """Return all roots, readable or not; the current one first.

        Raises:
            RootError: If the current root was replaced.
        """
        current = self._root
        self._roots.check(current)
        return [current, *(root for root in self._roots.registered() if root != current)]

    def path(self, session_uuid: SessionUuid) -> Path:
        """Return the path of a location in the current root."""
        return RootLocations(Layout(self._root)).path(session_uuid)

    def create(self, session_uuid: SessionUuid, owner: Owner | None = None) -> Path:
        """Create the session location in the current root, or return the existing one.

        Args:
            session_uuid: The session.
            owner: The OS user that owns the location from the moment it is visible; None for the user of this process.

        Raises:
            NotADirectoryError: If a link or a file has its name.
            OwnerError: If the location belongs to another OS user.
            RootError: If the current root was replaced.
        """
        root = self._root
        self._roots.check(root)
        return RootLocations(Layout(root)).create(session_uuid, owner)

    def list(self) -> Set[SessionUuid]:
        """Return the sessions that have a location; links do not count."""
        return {session_uuid for root in self.roots() for session_uuid in root.list()}

    def paths(self, session_uuid: SessionUuid) -> Sequence[Path]:
        """Return the existing locations of a session."""
        return [root.path(session_uuid) for root in self.roots() if root.stamp(session_uuid) is not None]

    def move_to_trash(self, session_uuid: SessionUuid) -> Sequence[Path]:
        """Move the locations of a session to the trash; return their former paths."""
        return [root.path(session_uuid) for root in self.roots() if root.move_to_trash(session_uuid)]

    def remove_table(self, session_uuid: SessionUuid, table_uuid: TableUuid) -> bool:
        """Move the directory of a table to the trash.

        Returns:
            False if there was no such directory.

        Raises:
            NotADirectoryError: If a link or a file has the name of the session location.
        """
        removed = [root.remove_table(session_uuid, table_uuid) for root in self.roots()]
        return any(removed)

    def table_paths(self, session_uuid: SessionUuid, tables: Sequence[TableUuid]) -> Sequence[Path]:
        """Return the directory of each table.

        A missing directory counts as one of the current root.
        """
        roots = self.roots()
        return [_root_of(roots, session_uuid, each).table(session_uuid, each) for each in tables]

    def size_bytes(self, session_uuid: SessionUuid, table_uuid: TableUuid) -> int:
        """Return the total size of the regular files of a table.

        Raises:
            FileNotFoundError: If the table has no directory.
            OSError: If the directory is deeper than a table can be.
        """
        return _root_of(self.roots(), session_uuid, table_uuid).size_bytes(session_uuid, table_uuid)

    def copy_table(self, source: tuple[SessionUuid, TableUuid], target: tuple[SessionUuid, TableUuid]) -> None:
        """Copy a table to another session that has a location.

        Uses hard links where the file system has them.

        Raises:
            FileNotFoundError: If the table is gone, or was removed during the copy.
            OSError: If the table cannot be copied.
        """
        session_uuid, table_uuid = target
        copy_table(_root_of(self.roots(), *source).table(*source), self.path(session_uuid) / check_uuid(table_uuid))

    def trash(self) -> Sequence[TrashEntry]:
        """Return everything in the trash of all roots."""
        return [entry for root in self.roots() for entry in root.trash.entries()]

    def trash_of(self, session_uuid: SessionUuid) -> Sequence[TrashEntry]:
        """Return what the trash contains of one session."""
        check_uuid(session_uuid)
        return [entry for root in self.roots() for entry in root.trash.entries_of(session_uuid)]

    def purge(self, entry: TrashEntry, should_stop: Callable[[], bool] = lambda: False) -> bool:
        """Remove an entry of the trash for good, however deep it is; may take long.

        Args:
            entry: An entry that :meth:`trash` returned.
            should_stop: Called repeatedly, from several threads. When it returns True, the purge stops soon, and the
                rest stays in the trash.

        Returns:
            Whether the entry is gone.

        Raises:
            OSError: If something could not be removed. The first such error, raised after trying all the rest.
        """
        trash = next((root.trash for root in self.roots() if root.trash.has(entry)), None)
        if trash is None:
            raise ValueError(f"Not an entry of the trash: {entry!r}")
        return trash.purge(entry, should_stop)


def _root_of(roots: Sequence[RootLocations], session_uuid: SessionUuid, table_uuid: TableUuid) -> RootLocations:
    return next((root for root in roots if root.has_table(session_uuid, table_uuid)), roots[0])
