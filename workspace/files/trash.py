"""What was set aside below one root, and its removal for good.

Why it exists: nothing is removed in its place. One atomic rename brings it into the trash, which only Lodge may enter;
there it is taken apart (:mod:`workspace.files.removal`), so that neither a deep tree nor links nor an owner who
still works in it can lead the removal anywhere else.

Guarantees:

1. Only entries of this trash are purged; anything else raises ValueError.
2. No link is followed, also if the owner of what is purged exchanges directories for links at that moment.
3. Everything may be repeated, and done by several processes at once: that something is gone already is no error.
4. A location that is being made here goes only while it is empty, by its name, in one step: once it has got its own
   name, no purge can reach what is in it.

Not guaranteed: that a directory can be purged in which a late writer goes on making files; purging raises OSError, and
may be tried again.

All functions and methods block, and raise OSError when the storage fails.
"""

import os
import secrets
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from workspace.files.layout import Layout
from workspace.files.private_files import open_directory
from workspace.files.removal import Removal, allow
from workspace.records import SessionUuid
from workspace.trash_entries import TrashEntry, session_of

_MADE = ".made"


class Trash:
    """The trash of one root."""

    def __init__(self, layout: Layout) -> None:
        self._path = layout.trash

    def entries(self) -> Sequence[TrashEntry]:
        return [TrashEntry(str(path)) for path in sorted(self._path.iterdir())]

    def entries_of(self, session_uuid: SessionUuid) -> Sequence[TrashEntry]:
        """Those of one session; of the others, which may be very many, no more than the names are read."""
        with os.scandir(self._path) as entries:
            names = sorted(entry.name for entry in entries if entry.name.startswith(f"{session_uuid}."))
        return [TrashEntry(str(self._path / name)) for name in names]

    def new_entry(self, name: str) -> TrashEntry:
        """A path that nobody else has, for something of this name."""
        return TrashEntry(str(self._path / f"{name}.{secrets.token_hex(8)}"))

    def new_location(self, session_uuid: str) -> TrashEntry:
        """A path for a location that is being made, and leaves the trash when it is."""
        return self.new_entry(f"{session_uuid}{_MADE}")

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
            _rename(path, target, directory)
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

    def purge(self, entry: TrashEntry, should_stop: Callable[[], bool] = lambda: False) -> bool:
        """Removes an entry for good, however deep it is; may take long.

        Returns: Whether it is gone; False if it was told to stop.
        Raises: OSError for the first thing that could not be removed, after trying all the others.
        """
        if not self.has(entry):
            raise ValueError(f"Not an entry of the trash: {entry!r}")
        with open_directory(self._path) as trash:
            if _MADE in Path(entry).suffixes:
                with suppress(FileNotFoundError):
                    os.rmdir(Path(entry).name, dir_fd=trash)
                return True

            def move_up(name: str, directory: int) -> str:
                part = Path(self.new_entry(f"{session_of(entry)}.part")).name
                os.rename(name, part, src_dir_fd=directory, dst_dir_fd=trash)
                return part

            return Removal(move_up, should_stop).remove(Path(entry).name, trash)


def _rename(path: Path, target: Path, directory: int | None) -> None:
    try:
        os.rename(path, target, src_dir_fd=directory)
    except PermissionError:
        with suppress(NotADirectoryError):
            allow(path, directory)  # a directory gets another parent only if it may be changed itself
        os.rename(path, target, src_dir_fd=directory)
