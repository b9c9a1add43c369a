"""The versions of one session record, changed by compare-and-swap without locks.

Several gateway replicas and reapers change the same record on shared storage. If they used a lock, a paused process
would block all others. Without locks, no process waits for another process, and a process that is too late gets a
conflict.

The directory contains one file for each version, ``<number>.<incarnation>.json``. The numbers start at 1. The file
with number 1 is the *anchor*. The incarnation is a random string. Each creation of a record generates a new
incarnation.

=================  ===============================================================================================
Operation          Steps
=================  ===============================================================================================
Replace version n  Create a hard link from a temporary file to the name of version n+1. The link fails if the name
                   exists. Then *spend* the file of version n: truncate the file, but keep its name.
Bury version n     Create a hard link from a tombstone to the name of version n+1.
Clear              After burying, remove the anchor first and then all other files.
Find the highest   Start at the version in the file ``hint``, and test which of the following names exist: first at
                   increasing distances, then by bisection. Without a usable hint, list the directory.
=================  ===============================================================================================

The directory is *live* if the anchor exists and the highest version is not a tombstone. The content of a live
directory is the content of its highest version. Otherwise, the directory is *dead*, and its record does not exist.

Guarantees:

1. Versions are never reused. Names are never removed from a live directory, so only one process can create the name of
   version n+1, even if the other processes were paused for a long time. The record changes at the moment when this
   name is created.
2. A dead directory stays dead. A slow replace may still create a name in a directory that is being cleared. The
   replace then finds that the anchor is missing, and reports that the record does not exist. Without the anchor, the
   new name has no effect, even if the process dies before it checks the anchor.
3. A reader always gets a complete content. It reads the highest version. It uses the content only if, after reading,
   there is no later version and the anchor still exists. In this case, no process had started to spend or clear the
   file.
4. If a process dies at any instruction, or the machine loses power, the record is in the state before or after the
   operation. A leftover temporary file, or a version that has not been spent, is removed together with the directory.

5. The time of a read and of a change does not depend on the number of earlier changes, apart from the file system's
   own lookup of names. Every ``HINT_INTERVAL`` changes, the file ``hint`` is replaced. It contains a version that
   existed at some time. It is only a starting point: a missing, damaged or old hint makes a read slower, but never
   changes its result. Therefore, it is not synced to disk.
6. On a full disk, changes use the space of :mod:`workspace.files.space_reserve`.

Not guaranteed: The number of names is not limited. Each change adds a file until the record is deleted. The file is
empty after the next change. The names cannot be removed earlier, because they decide the compare-and-swap: a process
that was paused before it created the name of version n+1 must find that the name exists. If the name had been removed,
the process would take its late change for a success.

Requirements on the storage:

- Creating a hard link is atomic and fails if the name exists. ``fsync`` takes effect for files and directories.
- After opening a directory, a process sees all earlier changes by other processes (on NFS: not mounted with
  ``nocto``).

If the reply to a link is lost on NFS, a successful link may report that the name exists. This case is detected.
"""

import errno
import os
import re
import secrets
from bisect import bisect_left
from collections.abc import Sequence
from contextlib import suppress

from workspace.files.private_files import (
    file_exists,
    read_private_file,
    remove_file,
    scan_directory,
    write_private_file,
)
from workspace.files.space_reserve import SpaceReserve
from workspace.identifiers import RecordName
from workspace.record_store import RecordConflictError, RecordNotFoundError, Version

HINT_INTERVAL = 8
"""After how many changes the hint is replaced."""

_HINT = "hint"
_TOMBSTONE = b"deleted\n"
_VERSION = re.compile(r"(\d{10})\.([0-9a-f]{16})")
_SUFFIX = ".json"


class ConcurrentChangeError(OSError):
    """Raised if another process changed the directory while it was being read.

    The directory can be read again.
    """

    def __init__(self) -> None:
        super().__init__(errno.EAGAIN, "Other processes keep changing the session record")


class VersionDirectory:
    """The versions of one session record in an open directory.

    All methods raise OSError if the storage fails.

    Args:
        name: The name of the record, for error messages.
        descriptor: The file descriptor of the open directory. The caller must close it.
        reserve: The space that changes use on a full disk.
    """

    def __init__(self, name: RecordName, descriptor: int, reserve: SpaceReserve) -> None:
        self._name = name
        self._descriptor = descriptor
        self._reserve = reserve

    def head(self) -> tuple[Version, bytes] | None:
        """Return the highest version and its content, or None if the directory is dead.

        Raises:
            ConcurrentChangeError: If another process changed the directory at the same time.
        """
        head = self._highest()
        if head is None:
            return None
        try:
            content = read_private_file(file_name(head), self._descriptor)
        except FileNotFoundError:  # names are removed only from dead directories
            return None
        if self._has(_next_version(head)):
            raise ConcurrentChangeError
        if content == _TOMBSTONE or not self._has(_anchor(head)):
            return None
        return head, content

    def is_head(self, version: Version) -> bool:
        """Return whether a version that was the head of a live directory still is.

        This is much faster than reading the head. See guarantee 3 for the order of the checks.
        """
        return not self._has(_next_version(version)) and self._has(_anchor(version))

    def replace(self, version: Version, content: bytes) -> Version:
        """Replace a version with new content, and return the new version.

        Raises:
            RecordConflictError: If the given version is not the highest version.
            RecordNotFoundError: If the directory is dead.
        """
        next_version = self._append(version, content)
        os.fsync(self._descriptor)
        self._spend(version)
        if _number(next_version) % HINT_INTERVAL == 0:
            self._write_hint(next_version)
        return next_version

    def bury(self, version: Version) -> None:
        """Mark the directory as dead so that it can be cleared.

        Raises:
            RecordConflictError: If the given version is not the highest version.
            RecordNotFoundError: If the directory is already dead.
        """
        self._append(version, _TOMBSTONE)

    def clear(self) -> None:
        """Remove all files of a dead directory.

        The anchor is removed first, and its removal is synced to disk. The other files are then removed in any order.
        """
        os.fsync(self._descriptor)
        for version in self._versions()[:1]:
            remove_file(file_name(version), self._descriptor)
        os.fsync(self._descriptor)
        for entry in scan_directory(self._descriptor):
            remove_file(entry.name, self._descriptor)

    def not_found(self) -> RecordNotFoundError:
        """Return the error for a dead directory."""
        return RecordNotFoundError(self._name, f"The session record [{self._name}] does not exist.")

    def _append(self, version: Version, content: bytes) -> Version:
        if not _VERSION.fullmatch(version) or not self._has(version):
            raise self._refusal()
        next_version = _next_version(version)
        temporary = f"{secrets.token_hex(8)}.tmp"
        try:
            self._reserve.write(temporary, content, self._descriptor)
            self._link(temporary, file_name(next_version))
        except FileExistsError:
            raise self._refusal() from None
        except FileNotFoundError:  # the directory is being cleared
            raise self.not_found() from None
        finally:
            remove_file(temporary, self._descriptor)
        if not self._has(_anchor(version)):
            remove_file(file_name(next_version), self._descriptor)
            raise self.not_found()
        return next_version

    def _link(self, temporary: str, target: str) -> None:
        here = self._descriptor
        try:
            os.link(temporary, target, src_dir_fd=here, dst_dir_fd=here)
        except FileExistsError:
            mine = os.stat(temporary, dir_fd=here, follow_symlinks=False)
            if not os.path.samestat(mine, os.stat(target, dir_fd=here, follow_symlinks=False)):
                raise

    def _spend(self, version: Version) -> None:
        """Truncate the file of a version.

        The file is never created, because the directory may have been cleared.
        """
        flags = os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW
        with suppress(FileNotFoundError):
            os.close(os.open(file_name(version), flags, dir_fd=self._descriptor))

    def _refusal(self) -> RecordConflictError | RecordNotFoundError:
        try:
            is_dead = self.head() is None
        except ConcurrentChangeError:
            is_dead = False
        if is_dead:
            return self.not_found()
        return RecordConflictError(
            self._name, f"The session record [{self._name}] has changed since it was read. Read it again."
        )

    def _has(self, version: Version) -> bool:
        return file_exists(file_name(version), self._descriptor)

    def _highest(self) -> Version | None:
        """Return the highest version. None if there is no version.

        If another process changes the directory at the same time, a lower version may be returned.
        """
        known = self._read_hint()
        if known is None or not self._has(known):
            versions = self._versions()
            return versions[-1] if versions else None
        incarnation = known.partition(".")[2]

        def exists(number: int) -> bool:
            return self._has(_numbered(number, incarnation))

        lowest, distance = _number(known), 1
        while exists(lowest + distance):
            lowest, distance = lowest + distance, 2 * distance
        number = lowest + bisect_left(range(1, distance), True, key=lambda step: not exists(lowest + step))
        return _numbered(number, incarnation)

    def _read_hint(self) -> Version | None:
        """Return the version in the hint. None if there is no usable hint."""
        try:
            text = read_private_file(_HINT, self._descriptor).decode("ascii", "replace")
        except FileNotFoundError:
            return None
        return Version(text) if _VERSION.fullmatch(text) else None

    def _write_hint(self, version: Version) -> None:
        """Replace the hint. Errors are ignored, because the change has already taken effect."""
        here, temporary = self._descriptor, f"{secrets.token_hex(8)}.tmp"
        with suppress(OSError):
            try:
                write_private_file(temporary, version.encode("ascii"), here, is_synced=False)
                os.rename(temporary, _HINT, src_dir_fd=here, dst_dir_fd=here)
            except OSError:
                remove_file(temporary, here)
                raise

    def _versions(self) -> Sequence[Version]:
        """Return all versions in ascending order, including spent versions."""
        names = (entry.name for entry in scan_directory(self._descriptor))
        stems = (name.removesuffix(_SUFFIX) for name in names if name.endswith(_SUFFIX))
        return sorted(Version(stem) for stem in stems if _VERSION.fullmatch(stem))


def first_version(incarnation: str) -> Version:
    """Return the first version of a new directory.

    The incarnation must consist of 16 random hexadecimal digits.
    """
    return _numbered(1, incarnation)


def file_name(version: Version) -> str:
    """Return the name of the file that contains a version."""
    return version + _SUFFIX


def _numbered(number: int, incarnation: str) -> Version:
    return Version(f"{number:010}.{incarnation}")


def _number(version: Version) -> int:
    return int(version.partition(".")[0])


def _anchor(version: Version) -> Version:
    return _numbered(1, version.partition(".")[2])


def _next_version(version: Version) -> Version:
    return _numbered(_number(version) + 1, version.partition(".")[2])
