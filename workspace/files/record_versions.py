"""One directory of numbered versions, changed by compare-and-swap without locks.

Why it exists: several gateway replicas and reapers change the same record on shared storage. A lock would let
a paused process block all others, so nothing here waits for anyone: who comes too late finds out.

The directory holds one file for each version, ``<number>.<incarnation>.json``. Numbers count from 1; the file
numbered 1 is the *anchor*. The incarnation is random, and new with each creation of a record.

- *Replace* of version n: a temporary file is linked as n+1, which fails if that name exists; then the file n
  is *spent*: emptied, its name kept.
- *Bury* of version n: a tombstone is linked as n+1.
- *Clear*, once buried: the anchor is removed first, then all other files.

The directory is *live* if it has its anchor and its highest version is no tombstone; its content is that of
the highest version. All else is *dead*, which means: not found.

Guarantees:

1. Versions are never reused. In a live directory no name is ever removed, so linking n+1 succeeds for one
   process only, however long the others were paused. That link is the moment of change.
2. A dead directory stays dead. A slow replace can still link a name in one that is being cleared; it looks
   for the anchor afterwards, finds it gone, and reports that the record is not found. With the anchor gone
   the name means nothing, even if the process died before it looked.
3. A reader sees a whole content. It takes the highest version, and only if after reading no later version is
   there and the anchor still is: then nobody had begun to spend or to clear what was read.
4. After a process died at any instruction, or the machine lost power, the state is that before or that after
   the operation. What may be left over, a temporary file or a version not yet spent, goes with the directory.

Not guaranteed: that the number of names is bounded. Each change adds one file, empty in the end, until the
record is deleted.

Needs of the storage: link is atomic and fails on existing names, fsync of files and directories is obeyed,
and opening a directory shows what others changed before (NFS: not mounted with ``nocto``). A link that was
made although the answer says that its name exists, as NFS can do after a lost reply, is recognised.
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
from workspace.records import RecordConflictError, RecordName, RecordNotFoundError, Version

_TOMBSTONE = b"deleted\n"
_VERSION = re.compile(r"(\d{10})\.([0-9a-f]{16})")
_SUFFIX = ".json"


class ConcurrentChangeError(OSError):
    """Another process changed the directory while it was looked at; look again."""

    def __init__(self) -> None:
        super().__init__(errno.EAGAIN, "changed by others too often while it was looked at")


class VersionDirectory:
    """The versions of one record, below an open directory.

    All methods raise OSError when the storage fails.

    Args:
        name: The record's name, for errors.
        descriptor: The open directory; whoever opened it closes it.
    """

    def __init__(self, name: RecordName, descriptor: int) -> None:
        self._name = name
        self._descriptor = descriptor

    def head(self) -> tuple[Version, bytes] | None:
        """The highest version and its content; None if the directory is dead.

        Raises: ConcurrentChangeError.
        """
        versions = self._versions()
        if not versions:
            return None
        head = versions[-1]
        try:
            content = read_private_file(file_name(head), self._descriptor)
        except FileNotFoundError:  # names vanish from dead directories only
            return None
        if self._has(_following(head)):
            raise ConcurrentChangeError
        if content == _TOMBSTONE or not self._has(_anchor(head)):
            return None
        return head, content

    def replace(self, version: Version, content: bytes) -> Version:
        """Raises: RecordConflictError, RecordNotFoundError."""
        following = self._append(version, content)
        os.fsync(self._descriptor)
        self._spend(version)
        return following

    def bury(self, version: Version) -> None:
        """Makes the directory dead; to be cleared. Raises: RecordConflictError, RecordNotFoundError."""
        self._append(version, _TOMBSTONE)

    def clear(self) -> None:
        """Empties a dead directory: first the anchor, down to the disk, then the rest in any order."""
        os.fsync(self._descriptor)
        for version in self._versions()[:1]:
            remove_file(file_name(version), self._descriptor)
        os.fsync(self._descriptor)
        for entry in scan_directory(self._descriptor):
            remove_file(entry.name, self._descriptor)

    def not_found(self) -> RecordNotFoundError:
        return RecordNotFoundError(self._name, f"There is no session record {self._name}.")

    def _append(self, version: Version, content: bytes) -> Version:
        if not _VERSION.fullmatch(version) or not self._has(version):
            raise self._refusal()
        following = _following(version)
        temporary = f"{secrets.token_hex(8)}.tmp"
        try:
            write_private_file(temporary, content, self._descriptor)
            self._link(temporary, file_name(following))
        except FileExistsError:
            raise self._refusal() from None
        except FileNotFoundError:  # the directory is being cleared
            raise self.not_found() from None
        finally:
            remove_file(temporary, self._descriptor)
        if not self._has(_anchor(version)):
            remove_file(file_name(following), self._descriptor)
            raise self.not_found()
        return following

    def _link(self, temporary: str, target: str) -> None:
        here = self._descriptor
        try:
            os.link(temporary, target, src_dir_fd=here, dst_dir_fd=here)
        except FileExistsError:
            mine = os.stat(temporary, dir_fd=here, follow_symlinks=False)
            if not os.path.samestat(mine, os.stat(target, dir_fd=here, follow_symlinks=False)):
                raise

    def _spend(self, version: Version) -> None:
        """Empties a version. Must never make its name: the directory may have been cleared meanwhile."""
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
        """All versions, spent ones included, in ascending order."""
        names = (entry.name for entry in scan_directory(self._descriptor))
        stems = (name.removesuffix(_SUFFIX) for name in names if name.endswith(_SUFFIX))
        return sorted(Version(stem) for stem in stems if _VERSION.fullmatch(stem))


def first_version(incarnation: str) -> Version:
    """The version that a creation writes; the incarnation is 16 random hexadecimal digits."""
    return _numbered(1, incarnation)


def file_name(version: Version) -> str:
    return version + _SUFFIX


def _numbered(number: int, incarnation: str) -> Version:
    return Version(f"{number:010}.{incarnation}")


def _anchor(version: Version) -> Version:
    return _numbered(1, version.partition(".")[2])


def _following(version: Version) -> Version:
    number, _, incarnation = version.partition(".")
    return _numbered(int(number) + 1, incarnation)
