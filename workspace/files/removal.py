"""Removal of a directory tree, even if the owner of the tree tries to prevent it.

Tables can have very many files, so a removal must be about as fast as ``rm -rf``. During the removal, the owner of the
directories may replace them with links, make them unreadable, or keep writing files.

Guarantees:

1. Links are never followed, and directories on other file systems are never entered. Each directory is opened relative
   to its open parent, and only if it is a directory. Each entry is removed relative to an open directory.
2. If the mode of a directory does not permit listing or changing it, the mode is changed, provided that this process
   has permission to do so. The directory is then removed.
3. After an error, the removal continues with all other files.
4. Each of ``THREADS`` threads keeps at most ``MAX_DEPTH`` directory levels open. More deeply nested directories are
   first moved up.
5. A removal that is stopped ends after at most ``FILES_BETWEEN_CHECKS`` files. It can be started again at any time.

Not guaranteed: A directory may not be removed while another process keeps creating files in it.
"""

import errno
import os
import threading
from collections.abc import Callable, MutableSequence, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import islice
from pathlib import Path

from workspace.files.private_files import open_directory_descriptor

MAX_DEPTH = 32
THREADS = 4
FILES_BETWEEN_CHECKS = 256
_ROUNDS = 10
_BATCH = 10_000
_PRIVATE = 0o700


class _StoppedError(Exception):
    """Raised if the removal was stopped."""


class Removal:
    """The removal of one directory tree.

    Args:
        move_up: A function that moves a directory to the directory where the removal started. Its arguments are the
            name of the directory and the file descriptor of its parent. It returns the new name.
        should_stop: A function that returns whether to stop the removal. It is called from several threads.
    """

    def __init__(self, move_up: Callable[[str, int], str], should_stop: Callable[[], bool]) -> None:
        self._move_up = move_up
        self._should_stop = should_stop
        self._moved: MutableSequence[str] = []
        self._failure: OSError | None = None

    def remove(self, name: str, parent: int) -> bool:
        """Remove an entry of an open directory and everything below it.

        Returns:
            True if the entry was removed completely. False if the removal was stopped.

        Raises:
            OSError: If some files could not be removed. All other files are removed first, and the first error is
                raised.
        """
        self._device = os.fstat(parent).st_dev
        self._moved.append(name)
        try:
            while self._moved:
                self._remove(self._moved.pop(), parent, 0)
        except _StoppedError:
            return False
        if self._failure is not None:
            raise self._failure
        return True

    def _note(self, error: OSError) -> None:
        """Store the first error, without its traceback.

        Later errors are dropped, because there may be as many errors as files.
        """
        if self._failure is None:
            self._failure = OSError(error.errno, error.strerror, error.filename)

    def _remove(self, name: str, parent: int, depth: int) -> None:
        self._check_stop()
        try:
            directory = _open_removable(name, parent)
            try:
                if os.fstat(directory).st_dev != self._device:
                    raise OSError(errno.EXDEV, "Another file system is mounted on this directory. Unmount it", name)
                self._empty(name, parent, directory, depth)
            finally:
                os.close(directory)
        except NotADirectoryError:
            self._unlink(name, parent)
        except FileNotFoundError:
            pass
        except OSError as error:
            self._note(error)

    def _empty(self, name: str, parent: int, directory: int, depth: int) -> None:
        """Remove a directory and its entries, with retries if new entries appear."""
        for _ in range(_ROUNDS):
            self._remove_children(directory, depth)
            try:
                _retry_permitted(os.rmdir, name, parent)
                return
            except OSError as error:
                if error.errno != errno.ENOTEMPTY:
                    raise
                if self._failure is not None:  # this error is the reason why the directory is not empty
                    return
        raise OSError(errno.ENOTEMPTY, "Another process keeps creating files in this directory", name)

    def _remove_children(self, directory: int, depth: int) -> None:
        directories: list[str] = []
        with os.scandir(directory) as entries:
            while batch := sorted(islice(entries, _BATCH), key=os.DirEntry.inode):  # sorted by the order on the disk
                for number, entry in enumerate(batch):
                    if number % FILES_BETWEEN_CHECKS == 0:
                        self._check_stop()
                    if entry.is_dir(follow_symlinks=False):
                        directories.append(entry.name)
                    else:
                        self._unlink(entry.name, directory)
        if depth == 0 and len(directories) > 1:
            self._remove_concurrently(directories, directory)
        elif depth < MAX_DEPTH:
            for name in directories:
                self._remove(name, directory, depth + 1)
        else:
            self._move_all_up(directories, directory)

    def _remove_concurrently(self, names: Sequence[str], directory: int) -> None:
        remaining = iter(names)
        lock = threading.Lock()

        def work(_: int) -> None:
            while True:
                with lock:
                    name = next(remaining, None)
                if name is None:
                    return
                self._remove(name, directory, 1)

        with ThreadPoolExecutor(THREADS, thread_name_prefix="removal") as executor:
            for _ in executor.map(work, range(min(THREADS, len(names)))):
                pass

    def _move_all_up(self, names: Sequence[str], directory: int) -> None:
        for name in names:
            try:
                self._moved.append(self._move_up(name, directory))
            except FileNotFoundError:
                continue
            except OSError as error:
                self._note(error)

    def _unlink(self, name: str, directory: int) -> None:
        try:
            _retry_permitted(os.unlink, name, directory)
        except FileNotFoundError:
            pass
        except OSError as error:
            self._note(error)

    def _check_stop(self) -> None:
        if self._should_stop():
            raise _StoppedError


def _open_removable(name: str, parent: int) -> int:
    """Open a directory for listing, and change modes that do not permit this."""
    try:
        return open_directory_descriptor(name, parent)
    except PermissionError:
        _make_writable(parent)
        make_removable(name, parent)
        return open_directory_descriptor(name, parent)


def make_removable(name: str | Path, parent: int | None) -> None:
    """Give the owner of a directory permission to list and change the directory.

    Links are not followed.
    """
    if os.chmod in os.supports_follow_symlinks:
        os.chmod(name, _PRIVATE, dir_fd=parent, follow_symlinks=False)
        return
    descriptor = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)
    try:
        Path(f"/proc/self/fd/{descriptor}").chmod(_PRIVATE)  # on Linux, the only way if it cannot be opened
    finally:
        os.close(descriptor)


def _retry_permitted(remove: Callable[..., None], name: str, parent: int) -> None:
    """Remove an entry, and retry after changing the mode of its directory.

    The mode is changed only if it does not permit the removal.
    """
    try:
        remove(name, dir_fd=parent)
    except PermissionError:
        _make_writable(parent)
        remove(name, dir_fd=parent)


def _make_writable(directory: int) -> None:
    """Give the owner of an open directory permission to change the directory.

    Errors are ignored here, because the next step fails if the mode could not be changed.
    """
    with suppress(OSError):
        os.fchmod(directory, _PRIVATE)
