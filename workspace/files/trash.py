"""The trash of one root, and its removal for good.

Nothing is removed in place. One atomic rename moves a location or a table to the trash, which only Lodge may enter.
:mod:`workspace.files.removal` removes it there. So neither a deep tree, nor links, nor an owner who still writes to it
can lead the removal anywhere else.

Guarantees:

1. Only entries of this trash are purged; anything else raises ValueError.
2. No link is followed, even if the owner of the purged directories replaces them with links at that moment.
3. Everything may be repeated, and run by several processes concurrently. A missing target is no error.
4. A new location in the trash is purged only while it is empty, by its name, in one step. Once it has its final name,
   no purge can reach its contents.

Not guaranteed: that a directory can be purged while a late writer keeps creating files in it. The purge raises OSError,
and may be tried again.

All functions and methods block, and raise OSError when the storage fails.
"""

import os
import secrets
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from workspace.files.layout import Layout
from workspace.files.private_files import open_directory
from workspace.files.removal import Removal, make_removable
from workspace.identifiers import SessionUuid
from workspace.trash_entries import TrashEntry, session_of

_NEW = ".made"


class Trash:
    """The trash of one root."""

    def __init__(self, layout: Layout) -> None:
        self._path = layout.trash

    def entries(self) -> Sequence[TrashEntry]:
        """Return all entries."""
        return [TrashEntry(str(path)) for path in sorted(self._path.iterdir())]

    def entries_of(self, session_uuid: SessionUuid) -> Sequence[TrashEntry]:
        """Return the entries of one session.

        Only the names of other entries are read.
        """
        with os.scandir(self._path) as entries:
            names = sorted(entry.name for entry in entries if entry.name.startswith(f"{session_uuid}."))
        return [TrashEntry(str(self._path / name)) for name in names]

    def new_entry(self, name: str) -> TrashEntry:
        """Return a unique path for an entry whose name starts with a given name."""
        return TrashEntry(str(self._path / f"{name}.{secrets.token_hex(8)}"))

    def new_location(self, session_uuid: str) -> TrashEntry:
        """Return a unique path for a location until it is complete."""
        return self.new_entry(f"{session_uuid}{_NEW}")

    def take(self, path: Path, directory: int | None, name: str) -> bool:
        """Move something to the trash; remove a link at once.

        Args:
            path: The path to move.
            directory: The open directory that a relative path starts from.
            name: The start of the name of the entry.

        Returns:
            False if the path does not exist.
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
        """Raise FileNotFoundError if the trash is missing.

        Otherwise that would look like a location that is gone.
        """
        self._path.lstat()

    def has(self, entry: TrashEntry) -> bool:
        """Return whether an entry is one of this trash."""
        path = Path(entry)
        return entry == str(path) and path.parent == self._path and path.name not in {"", ".", ".."}

    def purge(self, entry: TrashEntry, should_stop: Callable[[], bool] = lambda: False) -> bool:
        """Remove an entry for good, however deep it is; may take long.

        Returns:
            Whether the entry is gone; False if the purge was stopped.

        Raises:
            OSError: If something could not be removed. The first such error, raised after trying all the rest.
        """
        if not self.has(entry):
            raise ValueError(f"Not an entry of the trash: {entry!r}")
        with open_directory(self._path) as trash:
            if _NEW in Path(entry).suffixes:
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
            make_removable(path, directory)  # moving a directory changes its parent entry, so it must be writable
        os.rename(path, target, src_dir_fd=directory)
