"""The versions of one session record, changed by compare-and-swap without locks.

Several gateway replicas and reapers change the same record on shared storage. With a lock, a paused process would block
all others. Here nobody waits for anyone: a late process gets a conflict.

The directory contains one file per version, ``<number>.<incarnation>.json``. Numbers start at 1. The file with number 1
is the *anchor*. The incarnation is random, and each creation of a record has a new one.

=================  ===============================================================================================
operation          steps
=================  ===============================================================================================
replace version n  Link a temporary file as n+1, which fails if that name exists. Then *spend* file n: truncate it,
                   but keep its name.
bury version n     Link a tombstone as n+1.
clear              After burying: remove the anchor first, then all other files.
=================  ===============================================================================================

The directory is *live* if it has its anchor and its highest version is no tombstone. Its content is that of the highest
version. Otherwise it is *dead*, and its record does not exist.

Guarantees:

1. Versions are never reused. No name is ever removed from a live directory, so only one process can link n+1, however
   long the others were paused. That link is the moment of the change.
2. A dead directory stays dead. A slow replace may still link a name in a directory that is being cleared. It then finds
   the anchor gone, and reports that the record does not exist. Without the anchor, the name has no meaning, even if the
   process dies before it looks.
3. A reader sees a complete content. It reads the highest version, and accepts it only if afterwards no later version
   exists and the anchor still does. Then nobody has begun to spend or clear what it read.
4. If a process dies at any instruction, or the machine loses power, the state is the one before or after the operation.
   A left-over temporary file, or a version that is not yet spent, disappears with the directory.

Not guaranteed: a limit on the number of names. Each change adds one file, which ends up empty, until the record is
deleted.

Requirements on the storage:

- A link is atomic and fails if the name exists. ``fsync`` of files and directories takes effect.
- Opening a directory shows what others changed before (NFS: not mounted with ``nocto``).
- A link that succeeds although its answer says that the name exists, as after a lost reply on NFS, is recognised.
"""

import errno
import os
import re
import secrets
from collections.abc import Sequence
from contextlib import suppress

from workspace.files.private_files import (
    file_exists,
    read_private_file,
    remove_file,
    scan_directory,
    write_private_file,
)
from workspace.identifiers import RecordName
from workspace.record_store import RecordConflictError, RecordNotFoundError, Version

_TOMBSTONE = b"deleted\n"
_VERSION = re.compile(r"(\d{10})\.([0-9a-f]{16})")
_SUFFIX = ".json"


class ConcurrentChangeError(OSError):
    """Another process changed the directory while this one read it; read it again."""

    def __init__(self) -> None:
        super().__init__(errno.EAGAIN, "others keep changing it")


class VersionDirectory:
    """The versions of one record in an open directory.

    All methods raise OSError when the storage fails.

    Args:
        name: The name of the record, for error messages.
        descriptor: The open directory; the caller closes it.
    """

    def __init__(self, name: RecordName, descriptor: int) -> None:
        self._name = name
        self._descriptor = descriptor

    def head(self) -> tuple[Version, bytes] | None:
        """Return the highest version and its content; None if the directory is dead.

        Raises:
            ConcurrentChangeError: If another process changed the directory at the same time.
        """
        versions = self._versions()
        if not versions:
            return None
        head = versions[-1]
        try:
            content = read_private_file(file_name(head), self._descriptor)
        except FileNotFoundError:  # only dead directories lose names
            return None
        if self._has(_next_version(head)):
            raise ConcurrentChangeError
        if content == _TOMBSTONE or not self._has(_anchor(head)):
            return None
        return head, content

    def replace(self, version: Version, content: bytes) -> Version:
        """Replace a version with new content, and return the new version.

        Raises:
            RecordConflictError: If it is not the highest version.
            RecordNotFoundError: If the directory is dead.
        """
        next_version = self._append(version, content)
        os.fsync(self._descriptor)
        self._spend(version)
        return next_version

    def bury(self, version: Version) -> None:
        """Make the directory dead, so that it can be cleared.

        Raises:
            RecordConflictError: If it is not the highest version.
            RecordNotFoundError: If the directory is dead already.
        """
        self._append(version, _TOMBSTONE)

    def clear(self) -> None:
        """Remove all files of a dead directory.

        The anchor goes first, synced to the disk, then the rest in any order.
        """
        os.fsync(self._descriptor)
        for version in self._versions()[:1]:
            remove_file(file_name(version), self._descriptor)
        os.fsync(self._descriptor)
        for entry in scan_directory(self._descriptor):
            remove_file(entry.name, self._descriptor)

    def not_found(self) -> RecordNotFoundError:
        """Return the error for a dead directory."""
        return RecordNotFoundError(self._name, f"There is no session record {self._name}.")

    def _append(self, version: Version, content: bytes) -> Version:
        if not _VERSION.fullmatch(version) or not self._has(version):
            raise self._refusal()
        next_version = _next_version(version)
        temporary = f"{secrets.token_hex(8)}.tmp"
        try:
            write_private_file(temporary, content, self._descriptor)
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
        """Truncate a version.

        Never creates its name, because the directory may have been cleared.
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
            self._name, f"The session record {self._name} was changed since it was read; read it again."
        )

    def _has(self, version: Version) -> bool:
        return file_exists(file_name(version), self._descriptor)

    def _versions(self) -> Sequence[Version]:
        """Return all versions in ascending order, including spent ones."""
        names = (entry.name for entry in scan_directory(self._descriptor))
        stems = (name.removesuffix(_SUFFIX) for name in names if name.endswith(_SUFFIX))
        return sorted(Version(stem) for stem in stems if _VERSION.fullmatch(stem))


def first_version(incarnation: str) -> Version:
    """Return the version that a creation writes.

    The incarnation has 16 random hexadecimal digits.
    """
    return _numbered(1, incarnation)


def file_name(version: Version) -> str:
    """Return the name of the file of a version."""
    return version + _SUFFIX


def _numbered(number: int, incarnation: str) -> Version:
    return Version(f"{number:010}.{incarnation}")


def _anchor(version: Version) -> Version:
    return _numbered(1, version.partition(".")[2])


def _next_version(version: Version) -> Version:
    number, _, incarnation = version.partition(".")
    return _numbered(int(number) + 1, incarnation)
