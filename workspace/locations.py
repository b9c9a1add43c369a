"""Session locations: the directories that hold sessions' temporary tables.

Why it exists: gateway and reaper must make, find and remove session locations in the same way, and a removal
must be safe while a late task still writes, while another process removes the same thing, and when someone
put a link in the way. So nothing is removed in its place: it is set aside by one atomic rename, and purged
from the trash.

Guarantees:

1. Only names that are canonical UUIDs become paths; anything else raises ValueError.
2. No operation follows a link at or below a session location. Where a link bears the name of what is to be
   removed, the link itself is removed and what it points to is untouched.
3. Setting aside is atomic: a reader sees the whole location or none of it. What is in the trash never comes
   back.
4. A session location has mode 0700, whatever the umask.
5. Everything may be repeated, and done by several processes at once: that something is gone already is no
   error.

Not guaranteed: that a late writer does not make a location again after it was set aside; the reaper finds it
as an orphan. Nor that a directory can be purged whose own mode forbids its owner to enter; purging raises
OSError.

All methods block, and raise OSError when the storage fails.

Source: design, "Temporary tables" and "Session records, leases and the reaper"; seed 001, 5.1.4.
"""

import os
import secrets
from collections.abc import Iterator, MutableSequence, Sequence, Set
from contextlib import contextmanager
from pathlib import Path
from typing import NewType

from workspace.layout import Layout
from workspace.names import checked_uuid, is_uuid
from workspace.private_files import (
    make_private_directory,
    opened_directory,
    remove_file,
    scanned,
    sync_directory,
)
from workspace.records import SessionUuid, TableUuid

TrashEntry = NewType("TrashEntry", str)
"""The name of something that was set aside; of a session's things, begins with the session's UUID."""


class SessionLocations:
    """The session locations below the root of the default temporary workspace.

    Args:
        root: The workspace's root; shared by all replicas and reapers.
    """

    def __init__(self, root: Path) -> None:
        self._layout = Layout.below(root)

    def initialise(self) -> None:
        """Makes the root and Lodge's own directories, if missing; to be called when a process starts."""
        self._layout.initialise()

    def path(self, session_uuid: SessionUuid) -> Path:
        return self._layout.root / checked_uuid(session_uuid)

    def create(self, session_uuid: SessionUuid) -> Path:
        """Makes the session location, or takes the one that is there.

        Raises: NotADirectoryError for a link or a file in its place.
        """
        path = self.path(session_uuid)
        make_private_directory(path)
        return path

    def list(self) -> Set[SessionUuid]:
        """The session locations that are there: real directories only."""
        with os.scandir(self._layout.root) as entries:
            return {
                SessionUuid(entry.name)
                for entry in entries
                if is_uuid(entry.name) and entry.is_dir(follow_symlinks=False)
            }

    def set_aside(self, session_uuid: SessionUuid) -> bool:
        """Moves the session location into the trash.

        Returns: False if nothing bore its name.
        """
        moved = self._move_to_trash(self.path(session_uuid), None, prefix=session_uuid)
        if moved:
            sync_directory(self._layout.root)
        return moved

    def remove_table(self, session_uuid: SessionUuid, table_uuid: TableUuid) -> bool:
        """Moves one table's directory into the trash.

        Returns: False if nothing bore its name.
        Raises: NotADirectoryError for a link or a file in the place of the session location.
        """
        table = Path(checked_uuid(table_uuid))
        try:
            with opened_directory(self.path(session_uuid)) as location:
                return self._move_to_trash(table, location, prefix=f"{session_uuid}.{table_uuid}")
        except FileNotFoundError:
            self._require_trash()
            return False

    def trash(self) -> Sequence[TrashEntry]:
        """All that was set aside and not purged yet."""
        return [TrashEntry(path.name) for path in sorted(self._layout.trash.iterdir())]

    def trash_of(self, session_uuid: SessionUuid) -> Sequence[TrashEntry]:
        """What was set aside of one session, and not purged yet."""
        prefix = f"{checked_uuid(session_uuid)}."
        return [entry for entry in self.trash() if entry.startswith(prefix)]

    def purge(self, entry: TrashEntry) -> None:
        """Removes something from the trash for good, however deep it is; may take long.

        Raises: OSError for the first thing that could not be removed, after trying all the others.
        """
        if entry in {"", ".", ".."} or Path(entry).name != entry:
            raise ValueError(f"Not an entry of the trash: {entry!r}")
        pending, failures = [entry], list[OSError]()
        while pending:
            pending += self._purge_level(pending.pop(), failures)
        if failures:
            raise failures[0]

    def _purge_level(self, entry: TrashEntry, failures: MutableSequence[OSError]) -> Sequence[TrashEntry]:
        """Removes an entry of the trash; its directories become entries of their own, and are returned."""
        path = self._layout.trash / entry
        parts: MutableSequence[TrashEntry] = []
        with _collected(failures):
            try:
                with opened_directory(path) as directory:
                    for item in scanned(directory):
                        with _collected(failures):
                            if item.is_dir(follow_symlinks=False):
                                parts.append(self._part(item.name, directory, entry))
                            else:
                                remove_file(item.name, directory)
                    path.rmdir()
            except NotADirectoryError:
                path.unlink(missing_ok=True)
        return parts

    def _part(self, name: str, directory: int, entry: TrashEntry) -> TrashEntry:
        part = TrashEntry(f"{entry.partition('.')[0]}.part.{secrets.token_hex(8)}")
        os.rename(name, self._layout.trash / part, src_dir_fd=directory)
        return part

    def _move_to_trash(self, path: Path, directory: int | None, prefix: str) -> bool:
        target = self._layout.trash / f"{prefix}.{secrets.token_hex(8)}"
        try:
            os.rename(path, target, src_dir_fd=directory)
        except FileNotFoundError:
            self._require_trash()
            return False
        if target.is_symlink():
            target.unlink(missing_ok=True)
        return True

    def _require_trash(self) -> None:
        """Raises FileNotFoundError if the trash is missing, lest that look like a location that is gone."""
        self._layout.trash.lstat()


@contextmanager
def _collected(failures: MutableSequence[OSError]) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        pass
    except OSError as error:
        failures.append(error)


def is_whole_location(entry: TrashEntry) -> bool:
    """Whether something that was set aside of a session is its location, not a single table."""
    return entry.count(".") == 1
