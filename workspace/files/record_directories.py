"""The directories of session records, which are created and deleted without locks.

Each record is a directory of versions. :mod:`workspace.files.record_versions` describes how the versions in one
directory change. This module creates and deletes these directories at ``.lodge/sessions/<name>/``:

- *Create*: The directory and its first version are created in the staging directory and then renamed. The rename fails
  if a non-empty directory with the same name exists.
- *Delete*: The directory is marked as dead (buried), its files are removed, and the directory is removed with
  ``rmdir``. This fails if the directory is not empty.

Guarantees:

1. A slow process never affects a record that was created later with the same name. The process uses the file
   descriptor of the directory that it opened, and each creation makes a new directory. Only two operations use a path:
   ``rmdir`` and the rename of a new directory. They never affect a live directory, because it is never empty.
2. If a process dies at any instruction, or the machine loses power, the record is in the state before or after the
   operation. Leftover files have no effect. A dead directory is removed by the next creation, or by a list that has
   observed it for some time. Such a list also moves staged directories to the trash. If the process that created a
   staged directory is still running, its creation fails.
3. After RecordsUnavailableError, a change may or may not have taken effect. After any other error, the change has not
   taken effect, with one exception. If another process clears the directory during a change, the change may report
   that the record does not exist, which is true at that time. This is rare, because lists do not remove directories
   that died recently.
4. If the storage was replaced by other storage, every operation fails (:mod:`workspace.files.home_identity`).

The requirements on the storage are those of :mod:`workspace.files.record_versions`, and an atomic rename. If the reply
to a rename is lost on NFS, a successful rename may report that the source is missing. This case is detected.
"""

import errno
import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterator, Set
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from workspace.files.home_identity import HomeIdentity
from workspace.files.layout import Layout
from workspace.files.private_files import make_private_directory, open_directory, sync_directory, write_private_file
from workspace.files.record_versions import ConcurrentChangeError, VersionDirectory, file_name, first_version
from workspace.files.space_reserve import SpaceReserve
from workspace.identifiers import RecordName, check_record_name, is_record_name
from workspace.record_store import RecordExistsError, RecordNotFoundError, RecordsUnavailableError, Version
from workspace.retries import retry_on

LEFTOVER_SECONDS = 600.0
"""The time after which an observed leftover is removed, because its process is considered dead."""

_NOT_EMPTY = {errno.ENOTEMPTY, errno.EEXIST}


@dataclass(frozen=True, slots=True)
class Content:
    """The content of a live directory.

    Attributes:
        content: The content of the current version.
        version: The current version, which is needed for the next change.
        file: The path of the current version, for error messages.
    """

    content: bytes
    version: Version
    file: Path


class RecordDirectories:
    """The directories of all session records in one root.

    All methods raise RecordsUnavailableError if the storage cannot answer.

    Args:
        layout: The paths below the root.
        monotonic: A function that returns the current time of a monotonic clock, in seconds.
        root_id: The id of the root. None means the id that is found first.
    """

    def __init__(
        self, layout: Layout, monotonic: Callable[[], float] = time.monotonic, root_id: str | None = None
    ) -> None:
        self._layout = layout
        self._home = HomeIdentity(layout, root_id)
        self._reserve = SpaceReserve(layout.reserve)
        self._sessions = str(layout.sessions)
        self._monotonic = monotonic
        self._unfinished_since: dict[str, float] = {}

    def create(self, name: RecordName, content: bytes) -> Version:
        """Create a directory with its first version, and return that version.

        Raises:
            RecordExistsError: If a live directory with the same name exists.
        """
        incarnation = secrets.token_hex(8)
        version = first_version(incarnation)
        staged = self._layout.staging / incarnation
        with self._access(name):
            try:
                make_private_directory(staged)
                with open_directory(staged) as descriptor:
                    write_private_file(file_name(version), content, descriptor)
                    os.fsync(descriptor)
                _retry_transient(self._publish)(staged, name, version)
                sync_directory(self._layout.sessions)
            finally:
                shutil.rmtree(staged, ignore_errors=True)
        self._reserve.refill()
        return version

    def read(self, name: RecordName) -> Content:
        """Return the current content of a directory.

        Raises:
            RecordNotFoundError: If there is no live directory with the given name.
        """
        with self._access(name):
            return self._read_settled(name)

    def names(self) -> Set[RecordName]:
        """Return the names of all directories, including dead ones."""
        with self._access(None):
            return {RecordName(name) for name in _names_in(self._layout.sessions) if is_record_name(name)}

    def scan(
        self, names: Set[RecordName], version_of: Callable[[RecordName], Version | None] = lambda name: None
    ) -> Iterator[tuple[RecordName, Content | None]]:
        """Yield the contents of all live directories, and remove leftovers at the end.

        The result contains every record that exists during the whole scan. It may also contain records that exist only
        during a part of the scan.

        Args:
            names: The result of :meth:`names`.
            version_of: A function that returns the version of a record that the caller has read before, or None. If the
                record still has this version, its content is not read, and None is yielded in its place.
        """
        with self._access(None):
            staged = set(_names_in(self._layout.staging))
        dead: set[str] = set()
        for name in names:
            known = version_of(name)
            try:
                if known is not None and self._is_head(name, known):
                    yield name, None
                    continue
                with self._convert_errors(name):
                    content = self._read_settled(name)
                yield name, content
            except RecordNotFoundError:
                dead.add(name)
        with self._access(None):
            self._sweep(staged, dead)

    def replace(self, name: RecordName, content: bytes, version: Version) -> Version:
        """Replace the content of a directory, and return the new version.

        Raises:
            RecordConflictError: If the content has changed since the given version.
            RecordNotFoundError: If there is no live directory with the given name.
        """
        with self._access(name), self._open(name) as directory:
            version = directory.replace(version, content)
        self._reserve.refill()
        return version

    def delete(self, name: RecordName, version: Version) -> None:
        """Delete a directory whose content still has the given version.

        Raises:
            RecordConflictError: If the content has changed since the given version.
            RecordNotFoundError: If there is no live directory with the given name.
        """
        with self._access(name), self._open(name) as directory:
            directory.bury(version)
            self._remove(name, directory)

    def _path(self, name: RecordName) -> Path:
        return self._layout.sessions / check_record_name(name)

    @contextmanager
    def _access(self, name: RecordName | None) -> Iterator[None]:
        with self._convert_errors(name), self._home.checked():
            yield

    @contextmanager
    def _convert_errors(self, name: RecordName | None) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            where = self._layout.sessions if name is None else self._path(name)
            raise RecordsUnavailableError(
                name, f"The session records in [{where}] cannot be used now: {error}. Check the storage."
            ) from error

    @contextmanager
    def _open(self, name: RecordName) -> Iterator[VersionDirectory]:
        with ExitStack() as stack:
            try:
                descriptor = stack.enter_context(open_directory(self._path(name)))
            except FileNotFoundError:
                self._layout.sessions.lstat()  # raises if the storage is missing, and not only the record
                raise RecordNotFoundError(name, f"The session record [{name}] does not exist.") from None
            yield VersionDirectory(name, descriptor, self._reserve)

    def _is_head(self, name: RecordName, version: Version) -> bool:
        """Return whether a directory certainly still has a version. In doubt, it must be read."""
        try:
            with open_directory(f"{self._sessions}/{name}") as descriptor:
                return VersionDirectory(name, descriptor, self._reserve).is_head(version)
        except OSError:
            return False

    def _read_settled(self, name: RecordName) -> Content:
        try:
            return self._read(name)
        except OSError as error:
            if not _is_transient(error):
                raise
        return _retry_transient(self._read)(name)

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
                raise RecordExistsError(name, f"The session record [{name}] already exists.")
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
            # Leftovers have no effect, so an error must not stop the list.
            with suppress(OSError, RecordExistsError, RecordNotFoundError):
                if entry in dead:
                    self._remove_if_dead(RecordName(entry))
                else:
                    (self._layout.staging / entry).rename(self._layout.trash / f"staged.{entry}")


def _names_in(directory: Path) -> Iterator[str]:
    with os.scandir(directory) as entries:
        yield from (entry.name for entry in entries)


def _is_transient(error: OSError) -> bool:
    return error.errno in {errno.EAGAIN, errno.ESTALE}


_retry_transient = retry_on(
    OSError,
    is_transient=_is_transient,
    first_pause_seconds=0.001,
    longest_pause_seconds=0.05,
)
