"""The trash of one root, and the permanent removal of its entries.

Nothing is removed in its original place. An atomic rename moves a location or table to the trash, which only Lodge can
access. :mod:`workspace.files.removal` then removes it there. As a result, the removal never affects files elsewhere,
even if the directory tree is deeply nested, contains links, or is still being changed by its owner.

Guarantees:

1. Only entries of this trash are purged. Other paths raise ValueError.
2. Links are never followed, even if the owner of a purged directory replaces it with a link at the same time.
3. All operations can be repeated, and can run in several processes concurrently. A target that does not exist is not
   an error.
4. A new location in the trash is purged by its name in a single step, and only while it is empty. After it has been
   renamed to its final name, no purge can affect its contents.

Not guaranteed: A directory may not be purged while a late writer keeps creating files in it. In this case, the purge
raises OSError and can be tried again.

All functions and methods block, and raise OSError if the storage fails.
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
        """Return all entries of the trash."""
        return [TrashEntry(str(path)) for path in sorted(self._path.iterdir())]

    def entries_of(self, session_uuid: SessionUuid) -> Sequence[TrashEntry]:
        """Return the entries of the trash that belonged to a session.

        Of other entries, only the names are read.
        """
        with os.scandir(self._path) as entries:
            names = sorted(entry.name for entry in entries if entry.name.startswith(f"{session_uuid}."))
        return [TrashEntry(str(self._path / name)) for name in names]

    def new_entry(self, name: str) -> TrashEntry:
        """Return a unique path for an entry whose name begins with the given name."""
        return TrashEntry(str(self._path / f"{name}.{secrets.token_hex(8)}"))

    def new_location(self, session_uuid: str) -> TrashEntry:
        """Return a unique path for a new session location that is not complete yet."""
        return self.new_entry(f"{session_uuid}{_NEW}")

    def take(self, path: Path, directory: int | None, name: str) -> bool:
        """Move a file or directory to the trash. A link is removed immediately.

        Args:
            path: The path to move.
            directory: The file descriptor of the open directory to which a relative path refers.
            name: The beginning of the entry's name in the trash.

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
        """Check that the trash directory exists.

        Without this check, a missing trash directory would look like a deleted location.

        Raises:
            FileNotFoundError: If the trash directory is missing.
        """
        self._path.lstat()

    def has(self, entry: TrashEntry) -> bool:
        """Return whether a path is an entry of this trash."""
        path = Path(entry)
        return entry == str(path) and path.parent == self._path and path.name not in {"", ".", ".."}

    def purge(self, entry: TrashEntry, should_stop: Callable[[], bool] = lambda: False) -> bool:
        """Permanently remove an entry of the trash, however deeply it is nested.

        This may take a long time.

        Returns:
            True if the entry was removed completely. False if the purge was stopped.

        Raises:
            OSError: If some files could not be removed. All other files are removed first, and the first error is
                raised.
        """
        if not self.has(entry):
            raise ValueError(f"The path {entry!r} is not an entry of the trash.")
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
            make_removable(path, directory)  # moving a directory changes its ``..`` entry, so it must be writable
        os.rename(path, target, src_dir_fd=directory)
