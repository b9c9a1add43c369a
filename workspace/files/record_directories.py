"""The directories of session records, created and deleted without locks.

:mod:`workspace.files.record_versions` says how one directory of versions changes without locks. This module creates and
deletes such directories at ``.lodge/sessions/<name>/``, also without locks:

- *Create*: stage a directory with its first version, then rename it. The rename fails if a non-empty directory exists.
- *Delete*: bury and clear the directory, then remove it with ``rmdir``, which fails if it is not empty.

Guarantees:

1. A slow process never touches a later creation of the same name. It works with the descriptor of the directory that it
   opened, and each creation has its own directory. The two operations by path, ``rmdir`` and the rename of a creation,
   never affect a live directory, because it is never empty.
2. If a process dies at any instruction, or the machine loses power, the state is the one before or after the operation.
   Left-overs have no meaning. The next creation removes a dead directory, and so does a list that has seen it for a
   while. Such a list also moves a staged directory to the trash; if its creator is still alive, the creation fails.
3. After RecordsUnavailableError, a change may or may not have taken effect. After any other error it has not, with one
   exception: if another process clears the directory during a change, the change may report that the record does not
   exist, which is true by then. This is rare, because a list leaves recently dead directories alone.

Requirements on the storage: those of :mod:`workspace.files.record_versions`, and an atomic rename. A rename that
succeeds although its answer says that the source is missing, as after a lost reply on NFS, is recognised.
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

from workspace.files.layout import Layout
from workspace.files.private_files import make_private_directory, open_directory, sync_directory, write_private_file
from workspace.files.record_versions import ConcurrentChangeError, VersionDirectory, file_name, first_version
from workspace.identifiers import RecordName, check_record_name, is_record_name
from workspace.record_store import RecordExistsError, RecordNotFoundError, RecordsUnavailableError, Version
from workspace.retries import retry_on

LEFTOVER_SECONDS = 600.0
"""How long lists must have seen something unfinished before they consider its process dead."""

_NOT_EMPTY = {errno.ENOTEMPTY, errno.EEXIST}


@dataclass(frozen=True, slots=True)
class Content:
    """The content of a live directory.

    It comes with the version that a change must name, and the file for messages.
    """

    content: bytes
    version: Version
    file: Path


class RecordDirectories:
    """The directories of all session records of one root.

    Every method raises RecordsUnavailableError when the storage cannot answer.

    Args:
        layout: The paths of the root.
        monotonic: A clock, in seconds.
    """

    def __init__(self, layout: Layout, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._layout = layout
        self._monotonic = monotonic
        self._unfinished_since: dict[str, float] = {}

    def create(self, name: RecordName, content: bytes) -> Version:
        """Create a directory with its first version, and return that version.

        Raises:
            RecordExistsError: If there is a live directory of that name.
        """
        incarnation = secrets.token_hex(8)
        version = first_version(incarnation)
        staged = self._layout.staging / incarnation
        with self._convert_errors(name):
            try:
                make_private_directory(staged)
                with open_directory(staged) as descriptor:
                    write_private_file(file_name(version), content, descriptor)
                    os.fsync(descriptor)
                _retry_transient(self._publish)(staged, name, version)
                sync_directory(self._layout.sessions)
            finally:
                shutil.rmtree(staged, ignore_errors=True)
        return version

    def read(self, name: RecordName) -> Content:
        """Return the current content of a directory.

        Raises:
            RecordNotFoundError: If there is no live directory of that name.
        """
        with self._convert_errors(name):
            return _retry_transient(self._read)(name)

    def list(self) -> Sequence[tuple[RecordName, Content]]:
        """Return all contents, and remove left-overs.

        The result contains everything that exists during the whole call, and perhaps more.
        """
        with self._convert_errors(None):
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
        """Replace the content at a version, and return the new version.

        Raises:
            RecordConflictError: If the content has changed since.
            RecordNotFoundError: If there is no live directory of that name.
        """
        with self._convert_errors(name), self._open(name) as directory:
            return directory.replace(version, content)

    def delete(self, name: RecordName, version: Version) -> None:
        """Delete the content at a version.

        Raises:
            RecordConflictError: If the content has changed since.
            RecordNotFoundError: If there is no live directory of that name.
        """
        with self._convert_errors(name), self._open(name) as directory:
            directory.bury(version)
            self._remove(name, directory)

    def _path(self, name: RecordName) -> Path:
        return self._layout.sessions / check_record_name(name)

    @contextmanager
    def _convert_errors(self, name: RecordName | None) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            where = self._layout.sessions if name is None else self._path(name)
            raise RecordsUnavailableError(
                name, f"The session records in {where} cannot be used now: {error}. Check the storage."
            ) from error

    @contextmanager
    def _open(self, name: RecordName) -> Iterator[VersionDirectory]:
        with ExitStack() as stack:
            try:
                descriptor = stack.enter_context(open_directory(self._path(name)))
            except FileNotFoundError:
                self._layout.sessions.lstat()  # raises if the storage is missing, not the record
                raise RecordNotFoundError(name, f"There is no session record {name}.") from None
            yield VersionDirectory(name, descriptor)

    def _read(self, name: RecordName) -> Content:
        with self._open(name) as directory:
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
        with self._open(name) as directory:
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
            # A left-over has no meaning, so an error must not stop the list.
            with suppress(OSError, RecordExistsError, RecordNotFoundError):
                if entry in dead:
                    self._remove_if_dead(RecordName(entry))
                else:
                    (self._layout.staging / entry).rename(self._layout.trash / f"staged.{entry}")


_retry_transient = retry_on(
    OSError,
    is_transient=lambda error: error.errno in {errno.EAGAIN, errno.ESTALE},
    first_pause_seconds=0.001,
    longest_pause_seconds=0.05,
)
