"""What was set aside below one root, and its removal for good.

Why it exists: nothing is removed in its place. One atomic rename brings it into the trash, which only Lodge may enter;
there it is taken apart at leisure, level by level, so that neither a deep tree nor links nor an owner who still works
in it can lead the removal anywhere else.

Guarantees:

1. Only entries of this trash are purged; anything else raises ValueError.
2. No link is followed, also if the owner of what is purged exchanges directories for links at that moment: a
   directory is moved into the trash before it is opened, and is opened there only if it is one.
3. Everything may be repeated, and done by several processes at once: that something is gone already is no error.

Not guaranteed: that a directory can be purged whose own mode forbids its owner to enter, or in which a late writer goes
on making files; purging raises OSError, and may be tried again.

All functions and methods block, and raise OSError when the storage fails.
"""

import os
import secrets
from collections.abc import Iterator, MutableSequence, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NewType

from workspace.layout import Layout
from workspace.private_files import opened_directory, remove_file, scanned
from workspace.records import SessionUuid

TrashEntry = NewType("TrashEntry", str)
"""The absolute path of something that was set aside; the name of a session's thing begins with the session's UUID."""


class Trash:
    """The trash of one root."""

    def __init__(self, layout: Layout) -> None:
        self._path = layout.trash

    def entries(self) -> Sequence[TrashEntry]:
        return [TrashEntry(str(path)) for path in sorted(self._path.iterdir())]

    def new_entry(self, name: str) -> TrashEntry:
        """A path that nobody else has, for something of this name."""
        return TrashEntry(str(self._path / f"{name}.{secrets.token_hex(8)}"))

    def take(self, path: Path, directory: int | None, name: str) -> bool:
        """Moves something into the trash; a link is removed at once.

        Args:
            path: What to move.
            directory: The open directory that the path is relative to, if it is.
            name: How its entry is to begin.

        Returns: False if nothing bore that path.
        """
        target = Path(self.new_entry(name))
        try:
            os.rename(path, target, src_dir_fd=directory)
        except FileNotFoundError:
            self.require()
            return False
        if target.is_symlink():
            target.unlink(missing_ok=True)
        return True

    def require(self) -> None:
        """Raises FileNotFoundError if the trash is missing, lest that look like a location that is gone."""
        self._path.lstat()

    def has(self, entry: TrashEntry) -> bool:
        path = Path(entry)
        return entry == str(path) and path.parent == self._path and path.name not in {"", ".", ".."}

    def purge(self, entry: TrashEntry) -> None:
        """Removes an entry for good, however deep it is; may take long.

        Raises: OSError for the first thing that could not be removed, after trying all the others.
        """
        if not self.has(entry):
            raise ValueError(f"Not an entry of the trash: {entry!r}")
        pending, failures = [entry], list[OSError]()
        while pending:
            pending += self._purge_level(pending.pop(), failures)
        if failures:
            raise failures[0]

    def _purge_level(self, entry: TrashEntry, failures: MutableSequence[OSError]) -> Sequence[TrashEntry]:
        """Removes an entry; its directories become entries of their own, and are returned."""
        path = Path(entry)
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
        part = self.new_entry(f"{session_of(entry)}.part")
        os.rename(name, part, src_dir_fd=directory)
        return part


def session_of(entry: TrashEntry) -> SessionUuid:
    """The session whose thing was set aside; of anything else, no UUID."""
    return SessionUuid(Path(entry).name.partition(".")[0])


def is_whole_location(entry: TrashEntry) -> bool:
    """Whether something that was set aside of a session is its location, not a single table."""
    return Path(entry).name.count(".") == 1


def location_of(entry: TrashEntry) -> Path:
    """Where a whole location was before it was set aside."""
    return Path(entry).parents[2] / session_of(entry)


@contextmanager
def _collected(failures: MutableSequence[OSError]) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        pass
    except OSError as error:
        failures.append(error)
