"""Named contents on a file system: created once, changed by compare-and-swap, deleted for good.

Why it exists: :mod:`workspace.files.record_versions` says how one directory of versions is changed without locks.
This module is how such directories come and go, at ``.lodge/sessions/<name>/``, with no lock either.

- *Create*: a directory with its first version is staged, and renamed to its place. The rename fails on a
  directory that is not empty.
- *Delete*: the directory is buried and cleared, and then removed by rmdir, which fails if it is not empty.

Guarantees:

1. A slow process never touches a later creation of the same name. It works through the descriptor of the
   directory that it opened, and a directory serves one creation only. The two operations by path, rmdir and
   the rename of a creation, leave a live directory alone because it is never empty.
2. After a process died at any instruction, or the machine lost power, the state is that before or that after
   the operation. What is left over means nothing: a dead directory is removed by the next create, or by a
   list that has seen it for long; a staged one is moved to the trash by a list that has seen it for long, and
   if its creator still lives, the creation fails.
3. After RecordsUnavailableError a change has taken effect or not. Any other error means that it has not, save
   one: a change that was overtaken by the clearing of its directory may report that the record is not found,
   which is true by then. A list leaves what died just now alone, so that this is rare.

Needs of the storage: as in :mod:`workspace.files.record_versions`; also, rename is atomic. A rename that was made
although the answer says that its source is missing, as NFS can do after a lost reply, is recognised.
"""

import errno
import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterator, MutableSequence, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import tenacity

from workspace.files.layout import Layout
from workspace.files.private_files import (
    make_private_directory,
    open_directory,
    sync_directory,
    write_private_file,
)
from workspace.files.record_versions import ConcurrentChangeError, VersionDirectory, file_name, first_version
from workspace.identifiers import check_record_name, is_record_name
from workspace.records import (
    RecordExistsError,
    RecordName,
    RecordNotFoundError,
    RecordsUnavailableError,
    Version,
)

LEFTOVER_SECONDS = 600.0
"""How long lists must have seen something unfinished before they take the process that began it for dead."""

_ATTEMPTS = 50
_NOT_EMPTY = {errno.ENOTEMPTY, errno.EEXIST}

_Found = TypeVar("_Found")


@dataclass(frozen=True, slots=True)
class Content:
    """A live content, with the version that a change of it must name, and its file for people to find."""

    content: bytes
    version: Version
    file: Path


class RecordDirectories:
    """The named contents below one root.

    Every method raises RecordsUnavailableError when the storage cannot answer.

    Args:
        layout: Where contents, staged contents and trash lie.
        monotonic: A clock, in seconds.
    """

    def __init__(self, layout: Layout, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._layout = layout
        self._monotonic = monotonic
        self._unfinished_since: dict[str, float] = {}

    def create(self, name: RecordName, content: bytes) -> Version:
        """Raises: RecordExistsError."""
        incarnation = secrets.token_hex(8)
        version = first_version(incarnation)
        staged = self._layout.staging / incarnation
        with self._answering(name):
            try:
                make_private_directory(staged)
                with open_directory(staged) as descriptor:
                    write_private_file(file_name(version), content, descriptor)
                    os.fsync(descriptor)
                _retrying(lambda: self._publish(staged, name, version))
                sync_directory(self._layout.sessions)
            finally:
                shutil.rmtree(staged, ignore_errors=True)
        return version

    def read(self, name: RecordName) -> Content:
        """Raises: RecordNotFoundError."""
        with self._answering(name):
            return _retrying(lambda: self._read(name))

    def list(self) -> Sequence[tuple[RecordName, Content]]:
        """All contents that were there during the whole call; others perhaps. Sweeps what is left over."""
        with self._answering(None):
            staged = {path.name for path in self._layout.staging.iterdir()}
            names = {path.name for path in self._layout.sessions.iterdir() if is_record_name(path.name)}
        found: MutableSequence[tuple[RecordName, Content]] = []
        dead: set[str] = set()
        for name in map(RecordName, names):
            try:
                found.append((name, self.read(name)))
            except RecordNotFoundError:
                dead.add(name)
        self._sweep(staged, dead)
        return found

    def replace(self, name: RecordName, content: bytes, version: Version) -> Version:
        """Raises: RecordConflictError, RecordNotFoundError."""
        with self._answering(name), self._opened(name) as directory:
            return directory.replace(version, content)

    def delete(self, name: RecordName, version: Version) -> None:
        """Raises: RecordConflictError, RecordNotFoundError."""
        with self._answering(name), self._opened(name) as directory:
            directory.bury(version)
            self._remove(name, directory)

    def _path(self, name: RecordName) -> Path:
        return self._layout.sessions / check_record_name(name)

    @contextmanager
    def _answering(self, name: RecordName | None) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            where = self._layout.sessions if name is None else self._path(name)
            raise RecordsUnavailableError(
                name, f"The session records in {where} cannot be used now: {error}. Check the storage."
            ) from error

    @contextmanager
    def _opened(self, name: RecordName) -> Iterator[VersionDirectory]:
        with ExitStack() as stack:
            try:
                descriptor = stack.enter_context(open_directory(self._path(name)))
            except FileNotFoundError:
                self._layout.sessions.lstat()  # if that is missing too, the storage is, not the record
                raise RecordNotFoundError(name, f"There is no session record {name}.") from None
            yield VersionDirectory(name, descriptor)

    def _read(self, name: RecordName) -> Content:
        with self._opened(name) as directory:
            head = directory.head()
            if head is None:
                raise directory.not_found()
            version, content = head
            return Content(content, version, self._path(name) / file_name(version))

    def _publish(self, staged: Path, name: RecordName, version: Version) -> None:
        path = self._path(name)
        try:
            staged.rename(path)
        except FileNotFoundError:
            if not (path / file_name(version)).exists():
                raise
        except OSError as error:
            if error.errno not in _NOT_EMPTY:
                raise
            with suppress(RecordNotFoundError):
                self._remove_if_dead(name)
            raise ConcurrentChangeError from error

    def _remove_if_dead(self, name: RecordName) -> None:
        with self._opened(name) as directory:
            if directory.head() is not None:
                raise RecordExistsError(name, f"The session record {name} exists already.")
            self._remove(name, directory)

    def _remove(self, name: RecordName, directory: VersionDirectory) -> None:
        directory.clear()
        try:
            self._path(name).rmdir()
        except FileNotFoundError:
            pass
        except OSError as error:
            if error.errno not in _NOT_EMPTY:
                raise

    def _sweep(self, staged: set[str], dead: set[str]) -> None:
        now = self._monotonic()
        since = {entry: self._unfinished_since.get(entry, now) for entry in staged | dead}
        self._unfinished_since = since
        for entry in (entry for entry in since if now - since[entry] >= LEFTOVER_SECONDS):
            # What cannot be removed now means nothing either, so it must not stop the list.
            with suppress(OSError, RecordExistsError, RecordNotFoundError):
                if entry in dead:
                    self._remove_if_dead(RecordName(entry))
                else:
                    (self._layout.staging / entry).rename(self._layout.trash / f"staged.{entry}")


def _is_passing(error: BaseException) -> bool:
    return isinstance(error, OSError) and error.errno in {errno.EAGAIN, errno.ESTALE}


def _retrying(look: Callable[[], _Found]) -> _Found:
    """Calls again while others change what is looked at, a bounded number of times."""
    attempts = tenacity.Retrying(
        retry=tenacity.retry_if_exception(_is_passing),
        wait=tenacity.wait_random_exponential(multiplier=0.001, max=0.05),
        stop=tenacity.stop_after_attempt(_ATTEMPTS),
        reraise=True,
    )
    return attempts(look)
