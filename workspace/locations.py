"""Session locations: the directories that hold sessions' temporary tables.

Why it exists: gateway and reaper must make, find and remove session locations in the same way, and a removal
must be safe while a late task still writes, while another process removes the same thing, and when someone
put a link in the way. So nothing is removed in its place: it is set aside by one atomic rename, and purged
from the trash.

The default temporary workspace may move while sessions live (seed 001, 5.1.5), so a session can have a location in
each of several roots. They are made in the root that is current, and found in all of them.

Guarantees:

1. Only names that are canonical UUIDs become paths; anything else raises ValueError.
2. No operation follows a link at or below a session location. Where a link bears the name of what is to be
   removed, the link itself is removed and what it points to is untouched. This holds as well if the location is
   owned by somebody else, who exchanges directories for links at that moment.
3. Setting aside is atomic in each root: a reader sees the whole location or none of it. What is in the trash never
   comes back.
4. A session location has mode 0700, whatever the umask.
5. Everything may be repeated, and done by several processes at once: that something is gone already is no
   error.
6. What looks over all roots fails if one of them cannot be read (:mod:`workspace.roots`); no answer ever stands for a
   root that was not asked.

Not guaranteed: that a late writer does not make a location again after it was set aside; the reaper finds it
as an orphan. Nor what :mod:`workspace.trash` does not guarantee.

All methods block, and raise OSError when the storage fails. Safe to share between threads.

Source: design, "Temporary tables" and "Session records, leases and the reaper"; seed 001, 5.1.4 and 5.1.5.
"""

from collections.abc import Sequence, Set
from pathlib import Path

from workspace.layout import Layout
from workspace.names import checked_uuid
from workspace.records import SessionUuid, TableUuid
from workspace.root_locations import Owner, RootLocations
from workspace.roots import Roots
from workspace.trash import TrashEntry, session_of


class SessionLocations:
    """The session locations of the default temporary workspace, wherever it was.

    Args:
        root: The workspace's root now; shared by all replicas and reapers.
        home: Where session records and leases are (:func:`workspace.roots.home_of`); None if that is the root.
    """

    def __init__(self, root: Path, home: Path | None = None) -> None:
        self._root = Layout.below(root).root
        self._home = Layout.below(self._root if home is None else home).root
        self._roots = Roots(self._home)

    @property
    def home(self) -> Path:
        return self._home

    def initialise(self) -> None:
        """Makes the root and Lodge's own directories, if missing; to be called when a process starts."""
        self._roots.add(self._root)

    def use(self, root: Path) -> None:
        """Makes a root the current one; new locations are made there from now on.

        Raises: RootError if it cannot be used; the current root stays as it was.
        """
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

    def set_aside(self, session_uuid: SessionUuid) -> Sequence[Path]:
        """Moves the locations of a session into the trash of their roots.

        Returns: Where they were; nothing if nothing bore the session's name.
        """
        return [root.path(session_uuid) for root in self.roots() if root.set_aside(session_uuid)]

    def remove_table(self, session_uuid: SessionUuid, table_uuid: TableUuid) -> bool:
        """Moves one table's directory into the trash.

        Returns: False if nothing bore its name.
        Raises: NotADirectoryError for a link or a file in the place of the session location.
        """
        removed = [root.remove_table(session_uuid, table_uuid) for root in self.roots()]
        return any(removed)

    def directory(self, session_uuid: SessionUuid, table_uuid: TableUuid) -> Path:
        """The directory of a table that is there; else where it would be in the current root."""
        return self.directories(session_uuid, [table_uuid])[0]

    def directories(self, session_uuid: SessionUuid, tables: Sequence[TableUuid]) -> Sequence[Path]:
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

    def trash(self) -> Sequence[TrashEntry]:
        """All that was set aside and not purged yet."""
        return [entry for root in self.roots() for entry in root.trash.entries()]

    def trash_of(self, session_uuid: SessionUuid) -> Sequence[TrashEntry]:
        """What was set aside of one session, and not purged yet."""
        checked_uuid(session_uuid)
        return [entry for entry in self.trash() if session_of(entry) == session_uuid]

    def purge(self, entry: TrashEntry) -> None:
        """Removes something from the trash for good, however deep it is; may take long.

        Raises: OSError for the first thing that could not be removed, after trying all the others.
        """
        trash = next((root.trash for root in self.roots() if root.trash.has(entry)), None)
        if trash is None:
            raise ValueError(f"Not an entry of the trash: {entry!r}")
        trash.purge(entry)
