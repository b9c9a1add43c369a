"""Removing a directory with all that is below it, also while its owner works against that.

Why it exists: tables have very many files, so their removal must cost about what ``rm -rf`` costs; and whoever owns the
directories may exchange them for links, forbid to enter them, or go on writing.

Guarantees:

1. No link is followed, and no other file system entered: each directory is opened below its open parent, only if it is
   one, and what is removed is a name in an open directory.
2. A directory whose own mode forbids to list or change it is removed all the same, if this process may change modes.
3. What cannot be removed does not keep the rest from being removed.
4. Of a directory, at most ``DEEPEST`` levels are open at once in each of ``THREADS`` threads: what lies deeper is moved
   up first.
5. Once told to stop, it stops within ``FILES_BETWEEN_LOOKS`` files, and may be begun anew at any time.

Not guaranteed: that a directory goes away in which someone goes on making files.
"""

import errno
import os
import threading
from collections.abc import Callable, MutableSequence, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import islice
from pathlib import Path

DEEPEST = 32
THREADS = 4
FILES_BETWEEN_LOOKS = 256
_ROUNDS = 10
_BATCH = 10_000
_PRIVATE = 0o700


class _StoppedError(Exception):
    """The removal was told to stop."""


class Removal:
    """One removal.

    Args:
        move_up: Moves a directory, given by its name and its open parent, to where the removal began; returns the name
            that it has there.
        should_stop: Asked from several threads.
    """

    def __init__(self, move_up: Callable[[str, int], str], should_stop: Callable[[], bool]) -> None:
        self._move_up = move_up
        self._should_stop = should_stop
        self._moved: MutableSequence[str] = []
        self._failure: OSError | None = None

    def remove(self, name: str, parent: int) -> bool:
        """Removes what bears a name in an open directory.

        Returns: Whether it is gone; False if the removal was told to stop.
        Raises: OSError for the first thing that could not be removed, after trying all the others.
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
        """Keeps the first failure only, without what it happened in: there may be as many as there are files."""
        if self._failure is None:
            self._failure = OSError(error.errno, error.strerror, error.filename)

    def _remove(self, name: str, parent: int, depth: int) -> None:
        self._look()
        try:
            directory = _opened(name, parent)
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
        """Removes all that is in a directory, then the directory; if others fill it meanwhile, several times."""
        for _ in range(_ROUNDS):
            self._remove_children(directory, depth)
            try:
                _remove_directory(name, parent)
                return
            except OSError as error:
                if error.errno != errno.ENOTEMPTY:
                    raise
                if self._failure is not None:  # which is why
                    return
        raise OSError(errno.ENOTEMPTY, "Someone goes on making files here", name)

    def _remove_children(self, directory: int, depth: int) -> None:
        directories: list[str] = []
        with os.scandir(directory) as entries:
            while batch := sorted(islice(entries, _BATCH), key=os.DirEntry.inode):  # as they lie on the disk
                for number, entry in enumerate(batch):
                    if number % FILES_BETWEEN_LOOKS == 0:
                        self._look()
                    if entry.is_dir(follow_symlinks=False):
                        directories.append(entry.name)
                    else:
                        self._unlink(entry.name, directory)
        if depth == 0 and len(directories) > 1:
            self._remove_at_once(directories, directory)
        elif depth < DEEPEST:
            for name in directories:
                self._remove(name, directory, depth + 1)
        else:
            self._move_all_up(directories, directory)

    def _remove_at_once(self, names: Sequence[str], directory: int) -> None:
        left = iter(names)
        lock = threading.Lock()

        def work(_: int) -> None:
            while True:
                with lock:
                    name = next(left, None)
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
            os.unlink(name, dir_fd=directory)
        except FileNotFoundError:
            pass
        except PermissionError:
            self._unlink_permitted(name, directory)
        except OSError as error:
            self._note(error)

    def _unlink_permitted(self, name: str, directory: int) -> None:
        """Tries again after giving the directory a mode that permits it."""
        _allow_changes(directory)
        try:
            os.unlink(name, dir_fd=directory)
        except FileNotFoundError:
            pass
        except OSError as error:
            self._note(error)

    def _look(self) -> None:
        if self._should_stop():
            raise _StoppedError


def _opened(name: str, parent: int) -> int:
    """The descriptor of a directory that can be listed, if this process may make it so."""
    try:
        return _open(name, parent)
    except PermissionError:
        _allow_changes(parent)
        allow(name, parent)
        return _open(name, parent)


def _open(name: str, parent: int) -> int:
    return os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)


def allow(name: str | Path, parent: int | None) -> None:
    """Gives a directory, but no link to one, the mode that lets its owner list and change it."""
    if os.chmod in os.supports_follow_symlinks:
        os.chmod(name, _PRIVATE, dir_fd=parent, follow_symlinks=False)
        return
    descriptor = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)
    try:
        Path(f"/proc/self/fd/{descriptor}").chmod(_PRIVATE)  # Linux has no other way to what cannot be opened
    finally:
        os.close(descriptor)


def _remove_directory(name: str, parent: int) -> None:
    try:
        os.rmdir(name, dir_fd=parent)
    except PermissionError:
        _allow_changes(parent)
        os.rmdir(name, dir_fd=parent)


def _allow_changes(directory: int) -> None:
    """Gives an open directory the mode that lets its owner change it; what comes next tells whether it could."""
    with suppress(OSError):
        os.fchmod(directory, _PRIVATE)
