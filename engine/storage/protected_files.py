"""Local files that only the owner of the workspace can replace.

Unlike :func:`engine.storage.local.open_file`, a reader that opens files by their path cannot check which file it has
opened. It stays inside the workspace only if nobody else can put a link in the place of a file or of a directory on its
path.

Guarantee: a file is protected only if all conditions are true:

1. The path from the workspace to the file contains no link, and the file is a regular file.
2. The workspace's directory, all directories on the path and the file belong to the owner of the workspace's directory
   or to root.
3. Neither the group nor others may write to any of them. This includes access control lists, because their mask is in
   the permissions of the group.
4. The workspace is not inside an excluded directory.

Not guaranteed: the owner, and programs that run as the owner, can still replace the file.
"""

import os
import stat
from pathlib import Path, PurePosixPath

from engine.scan_source import ScanSource
from engine.storage.listed_file import ListedFile

_ROOT = 0


class ProtectedFiles:
    """Finds the protected files of a scan.

    Args:
        source: The scan.

    Attributes:
        root: The real path of the workspace.
    """

    def __init__(self, source: ScanSource) -> None:
        self.root = Path(source.root).resolve()
        excluded = (Path(directory).resolve() for directory in source.excluded)
        self._may_contain = not any(self.root.is_relative_to(directory) for directory in excluded)
        self._owners = frozenset({_ROOT})
        self._directories: dict[PurePosixPath, bool] = {}
        try:
            self._owners |= {self.root.stat().st_uid}
        except OSError:
            self._may_contain = False

    def contains(self, file: ListedFile) -> bool:
        """Return whether a file is protected, and still has the version of the listing."""
        path = PurePosixPath(file.path)
        if not self._may_contain or not self._is_directory_protected(path.parent):
            return False
        try:
            status = os.lstat(self.root / path)
        except OSError:
            return False
        is_same = (status.st_size, str(status.st_mtime_ns)) == (file.size_bytes, file.version)
        return is_same and stat.S_ISREG(status.st_mode) and self._is_protected(status)

    def _is_directory_protected(self, directory: PurePosixPath) -> bool:
        known = self._directories.get(directory)
        if known is None:
            is_root = directory == PurePosixPath(".")
            try:
                status = os.lstat(self.root / directory)
            except OSError:
                return False
            known = stat.S_ISDIR(status.st_mode) and self._is_protected(status)
            known = known and (is_root or self._is_directory_protected(directory.parent))
            self._directories[directory] = known
        return known

    def _is_protected(self, status: os.stat_result) -> bool:
        return status.st_uid in self._owners and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
