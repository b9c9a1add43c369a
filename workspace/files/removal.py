"""Removal of a directory tree, even against the will of its owner.

Tables have very many files, so a removal must cost about as much as ``rm -rf``. The owner of the directories may
replace them with links, make them unreadable, or keep writing to them.

Guarantees:

1. No link is followed and no other file system is entered. Each directory is opened from its open parent, and only if
   it is a directory. Each removed entry is a name in an open directory.
2. A directory whose mode forbids listing or changing it is removed too, if this process may change modes.
3. An error does not prevent the removal of the rest.
4. Each of ``THREADS`` threads keeps at most ``MAX_DEPTH`` levels of a directory open. Anything deeper first moves up.
5. A removal stops within ``FILES_BETWEEN_CHECKS`` files, and may be restarted at any time.

Not guaranteed: that a directory is removed while someone keeps creating files in it.
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
    """The removal was stopped."""


class Removal:
    """One removal.

    Args:
        move_up: Moves a directory, given by its name and its open parent, to where the removal started; returns its new
            name.
        should_stop: Called from several threads.
    """

    def __init__(self, move_up: Callable[[str, int], str], should_stop: Callable[[], bool]) -> None:
        self._move_up = move_up
        self._should_stop = should_stop
        self._moved: MutableSequence[str] = []
        self._failure: OSError | None = None

    def remove(self, name: str, parent: int) -> bool:
        """Remove an entry of an open directory with everything below it.

        Returns:
            Whether it is gone; False if the removal was stopped.

        Raises:
            OSError: If something could not be removed. The first such error, raised after trying all the rest.
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
        """Keep the first failure only, without its traceback.

        There may be as many failures as files.
        """
        if self._failure is None:
            self._failure = OSError(error.errno, error.strerror, error.filename)

    def _remove(self, name: str, parent: int, depth: int) -> None:
        self._check_stop()
        try:
            directory = _open_removable(name, parent)
            try:
                if os.fstat(directory).st_dev != self._device:
                    raise OSError(errno.EXDEV, "Another file system is mounted here; unmount it", name)
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
        """Remove a directory with its entries; retry if others create new ones."""
        for _ in range(_ROUNDS):
            self._remove_children(directory, depth)
            try:
                _retry_permitted(os.rmdir, name, parent)
                return
            except OSError as error:
                if error.errno != errno.ENOTEMPTY:
                    raise
                if self._failure is not None:  # the reason why it is not empty
                    return
        raise OSError(errno.ENOTEMPTY, "Someone keeps creating files here", name)

    def _remove_children(self, directory: int, depth: int) -> None:
        directories: list[str] = []
        with os.scandir(directory) as entries:
            while batch := sorted(islice(entries, _BATCH), key=os.DirEntry.inode):  # in the order on the disk
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
    """Open a directory to list it, and change modes if they forbid that."""
    try:
        return open_directory_descriptor(name, parent)
    except PermissionError:
        _make_writable(parent)
        make_removable(name, parent)
        return open_directory_descriptor(name, parent)


def make_removable(name: str | Path, parent: int | None) -> None:
    """Let the owner of a directory list and change it, unless it is a link."""
    if os.chmod in os.supports_follow_symlinks:
        os.chmod(name, _PRIVATE, dir_fd=parent, follow_symlinks=False)
        return
    descriptor = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)
    try:
        Path(f"/proc/self/fd/{descriptor}").chmod(_PRIVATE)  # the only way on Linux if it cannot be opened
    finally:
        os.close(descriptor)


def _retry_permitted(remove: Callable[..., None], name: str, parent: int) -> None:
    """Remove an entry, and retry after changing a mode that forbids it."""
    try:
        remove(name, dir_fd=parent)
    except PermissionError:
        _make_writable(parent)
        remove(name, dir_fd=parent)


def _make_writable(directory: int) -> None:
    """Let the owner of an open directory change it.

    The next step reports a failure.
    """
    with suppress(OSError):
        os.fchmod(directory, _PRIVATE)
