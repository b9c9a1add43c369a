"""Session locations as directories of a file system; see :mod:`workspace.locations` for what they are.

Nothing is removed in its place: it is set aside by one atomic rename, and purged from the trash. The default temporary
workspace may move while sessions live (seed 001, 5.1.5), so a session can have a location in each of several roots.
They are made in the root that is current, and found in all of them.

Guarantees, beside those of all session locations:

1. No operation follows a link at or below a session location. Where a link bears the name of what is to be
   removed, the link itself is removed and what it points to is untouched. This holds as well if the location is
   owned by somebody else, who exchanges directories for links at that moment.
2. Setting aside is atomic in each root: a reader sees the whole location or none of it. What is in the trash never
   comes back.
3. A session location has mode 0700, whatever the umask.

Not guaranteed: what :mod:`workspace.files.trash` does not guarantee.
"""

from collections.abc import Callable, Sequence, Set
from pathlib import Path

from workspace.files.layout import Layout
from workspace.files.root_locations import RootLocations
from workspace.files.roots import Roots
from workspace.files.table_copies import copy_table
from workspace.identifiers import check_uuid
from workspace.locations import Owner
from workspace.records import SessionUuid, TableUuid
from workspace.root_identities import RootError, RootIds
from workspace.storage_paths import StoragePath
from workspace.trash_entries import TrashEntry


class FileSessionLocations:
    """The session locations of the default temporary workspace, wherever it was.

    Args:
        root: The workspace's root now; shared by all replicas and reapers.
        home: Where session records and leases are (:func:`workspace.files.roots.home_of`); None if that is the root.
        root_ids: Where ids of roots are recorded; None if they are on the roots' own storage only.
    """

    def __init__(self, root: Path, home: Path | None = None, root_ids: RootIds | None = None) -> None:
        self._root = Layout.below(root).root
        self._home = Layout.below(self._root if home is None else home).root
        self._roots = Roots(self._home, root_ids)

    @property
    def home(self) -> Path:
        return self._home

    def initialise(self) -> None:
        """Makes the root and Lodge's own directories, if missing; to be called when a process starts."""
        self._roots.add(self._root)

    def set_current_root(self, root: StoragePath) -> None:
        """Makes a root the current one; new locations are made there from now on.

        Raises: RootError if it cannot be used; the current root stays as it was.
        """
        if not isinstance(root, Path):
            raise RootError(
                f"The workspace cannot move from [{self._root}] to [{root}] while it is in use. Start anew."
            )
        self._roots.add(root)
        self._root = Layout.below(root).root

    def roots(self) -> Sequence[RootLocations]:
        """All roots, the current one first. Raises: RootError if one cannot be read."""
        current = self._root
        others = (root for root in self._roots.all() if root != current)
        return [RootLocations(Layout(root)) for root in (current, *others)]

    def known_roots(self) -> Sequence[Path]:
        """Where session locations may lie, the current root first, readable or not.

        Raises: RootError if the current root is not what it was.
        """
        current = self._root
        self._roots.check(current)
        return [current, *(root for root in self._roots.registered() if root != current)]

    def path(self, session_uuid: SessionUuid) -> Path:
        """Where the location is made now."""
        return RootLocations(Layout(self._root)).path(session_uuid)

    def create(self, session_uuid: SessionUuid, owner: Owner | None = None) -> Path:
        """Makes the session location in the current root, or takes the one that is there.

        Args:
            session_uuid: Whose it is.
            owner: The OS user it is for, from the moment that it can be seen; None for the user of this process.

        Raises: NotADirectoryError for a link or a file in its place; OwnerError if it is another user's; RootError.
        """
        root = self._root
        self._roots.check(root)
        return RootLocations(Layout(root)).create(session_uuid, owner)

    def list(self) -> Set[SessionUuid]:
        """The sessions that have a location: real directories only."""
        return {session_uuid for root in self.roots() for session_uuid in root.list()}

    def paths(self, session_uuid: SessionUuid) -> Sequence[Path]:
        """The locations of a session that are there."""
        return [root.path(session_uuid) for root in self.roots() if root.stamp(session_uuid) is not None]

    def move_to_trash(self, session_uuid: SessionUuid) -> Sequence[Path]:
        """Moves the locations of a session into the trash of their roots.

        Returns: Where they were; nothing if nothing bore the session's name.
        """
        return [root.path(session_uuid) for root in self.roots() if root.move_to_trash(session_uuid)]

    def remove_table(self, session_uuid: SessionUuid, table_uuid: TableUuid) -> bool:
        """Moves one table's directory into the trash.

        Returns: False if nothing bore its name.
        Raises: NotADirectoryError for a link or a file in the place of the session location.
        """
        removed = [root.remove_table(session_uuid, table_uuid) for root in self.roots()]
        return any(removed)

    def table_paths(self, session_uuid: SessionUuid, tables: Sequence[TableUuid]) -> Sequence[Path]:
        """The directories of several, as :meth:`directory` finds each."""
        roots = self.roots()
        found = (next((root for root in roots if root.has_table(session_uuid, each)), roots[0]) for each in tables)
        return [root.table(session_uuid, each) for root, each in zip(found, tables, strict=True)]

    def size_bytes(self, session_uuid: SessionUuid, table_uuid: TableUuid) -> int:
        """The sizes of all regular files of a table.

        Raises: FileNotFoundError if its directory is not there; OSError if it is deeper than a table can be.
        """
        roots = self.roots()
        found = next((root for root in roots if root.has_table(session_uuid, table_uuid)), roots[0])
        return found.size_bytes(session_uuid, table_uuid)

    def copy_table(self, source: tuple[SessionUuid, TableUuid], target: tuple[SessionUuid, TableUuid]) -> None:
        """Gives a session whose location is there a copy of a table: links where the file system has them.

        Raises: FileNotFoundError if the table is gone, or went meanwhile; OSError.
        """
        session_uuid, table_uuid = target
        copy_table(self.table_paths(source[0], [source[1]])[0], self.path(session_uuid) / check_uuid(table_uuid))

    def trash(self) -> Sequence[TrashEntry]:
        """All that was set aside and not purged yet."""
        return [entry for root in self.roots() for entry in root.trash.entries()]

    def trash_of(self, session_uuid: SessionUuid) -> Sequence[TrashEntry]:
        """What was set aside of one session, and not purged yet."""
        check_uuid(session_uuid)
        return [entry for root in self.roots() for entry in root.trash.entries_of(session_uuid)]

    def purge(self, entry: TrashEntry, should_stop: Callable[[], bool] = lambda: False) -> bool:
        """Removes something from the trash for good, however deep it is; may take long.

        Args:
            entry: As :meth:`trash` returned it.
            should_stop: Asked again and again, from several threads; once it says yes, the purge ends soon, and what
                is left stays in the trash.

        Returns: Whether all of it is gone.
        Raises: OSError for the first thing that could not be removed, after trying all the others.
        """
        trash = next((root.trash for root in self.roots() if root.trash.has(entry)), None)
        if trash is None:
            raise ValueError(f"Not an entry of the trash: {entry!r}")
        return trash.purge(entry, should_stop)
