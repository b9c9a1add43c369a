"""Session locations in one root.

For the guarantees, see :mod:`workspace.files.session_locations`.
"""

import errno
import os
import stat
from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from workspace.files.layout import Layout
from workspace.files.private_files import make_private_directory, open_directory, sync_directory, write_private_file
from workspace.files.table_files import size_bytes, sum_data_files
from workspace.files.trash import Trash
from workspace.identifiers import SessionUuid, TableUuid, check_file_name, check_uuid, is_uuid
from workspace.locations import LocationContents, Owner, OwnerError

_ATTEMPTS = 10
_MAX_DIRECTORIES = 10_000


@dataclass(frozen=True, slots=True)
class Stamp:
    """A value that changes when names in a directory change.

    The owner of the directory cannot restore an earlier value.
    """

    inode: int
    changed_ns: int


class RootLocations:
    """The session locations in one root."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self.trash = Trash(layout)

    def path(self, session_uuid: SessionUuid) -> Path:
        """Return the path of a session location."""
        return self._layout.root / check_uuid(session_uuid)

    def create(self, session_uuid: SessionUuid, owner: Owner | None) -> Path:
        """Create a session location, or return the existing one.

        Raises:
            NotADirectoryError: If a link or a file has the name of the location.
            OwnerError: If the location belongs to another OS user.
        """
        path = self.path(session_uuid)
        if owner is None:
            make_private_directory(path)
            return path
        with suppress(FileNotFoundError):
            _check_owner(path, owner)
            return path
        for _ in range(_ATTEMPTS):
            try:
                self._create_for(path, owner)
            except FileNotFoundError:  # the reaper purged the new location from the trash
                continue
            except OSError as error:
                if error.errno not in {errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR}:
                    raise
            _check_owner(path, owner)
            return path
        raise FileNotFoundError(errno.ENOENT, "Other processes keep removing the session location", str(path))

    def _create_for(self, path: Path, owner: Owner) -> None:
        """Create a session location in the trash and then rename it.

        No other user can see the location while it is in the trash. If the process crashes, the reaper removes the
        location with the other entries of the trash.
        """
        new = Path(self.trash.new_location(path.name))
        make_private_directory(new)
        with open_directory(new) as descriptor:
            os.fchown(descriptor, owner.uid, owner.gid)
            os.fchmod(descriptor, 0o700)
        new.rename(path)

    def create_table(self, session_uuid: SessionUuid, table_uuid: TableUuid, file: Sequence[str]) -> None:
        """Create the directory of a table, with an empty file in it.

        All of them belong to the owner of the session location.
        """
        names = [check_file_name(name) for name in file]
        with open_directory(self.path(session_uuid)) as location, ExitStack() as opened:
            status, parent = os.fstat(location), location
            for name in (check_uuid(table_uuid), *names[:-1]):
                parent = opened.enter_context(_new_directory(name, parent, status))
            with suppress(FileExistsError):
                write_private_file(names[-1], b"", parent, is_synced=False)
            if os.geteuid() != status.st_uid:
                os.chown(names[-1], status.st_uid, status.st_gid, dir_fd=parent, follow_symlinks=False)

    def list(self) -> Set[SessionUuid]:
        """Return the sessions that have a session location.

        Links are ignored. An entry of unknown type counts as a location.
        """
        with os.scandir(self._layout.root) as entries:
            return {SessionUuid(entry.name) for entry in entries if is_uuid(entry.name) and _may_be_directory(entry)}

    def stamp(self, session_uuid: SessionUuid) -> Stamp | None:
        """Return the stamp of a session location, or None if it does not exist."""
        try:
            status = self.path(session_uuid).lstat()
        except FileNotFoundError:
            return None
        return Stamp(status.st_ino, status.st_ctime_ns) if stat.S_ISDIR(status.st_mode) else None

    def contents(self, session_uuid: SessionUuid) -> LocationContents:
        """Return the first 10,000 directories in a session location.

        If the location does not exist, the result is empty.
        """
        names = list(islice(self._directories(session_uuid), _MAX_DIRECTORIES))
        tables = {TableUuid(name) for name in names if is_uuid(name)}
        return LocationContents(tables, len(names) - len(tables))

    def move_to_trash(self, session_uuid: SessionUuid) -> bool:
        """Move a session location to the trash, and return whether it existed."""
        moved = self.trash.take(self.path(session_uuid), None, session_uuid)
        if moved:
            sync_directory(self._layout.root)
        return moved

    def remove_table(self, session_uuid: SessionUuid, table_uuid: TableUuid) -> bool:
        """Move the directory of a table to the trash, and return whether it existed."""
        table = Path(check_uuid(table_uuid))
        try:
            with open_directory(self.path(session_uuid)) as location:
                return self.trash.take(table, location, f"{session_uuid}.{table_uuid}")
        except FileNotFoundError:
            self.trash.require()
            return False

    def table(self, session_uuid: SessionUuid, table_uuid: TableUuid) -> Path:
        """Return the path of a table's directory."""
        return self.path(session_uuid) / check_uuid(table_uuid)

    def has_table(self, session_uuid: SessionUuid, table_uuid: TableUuid) -> bool:
        """Return whether a table has a directory. A link does not count."""
        try:
            return stat.S_ISDIR(self.table(session_uuid, table_uuid).lstat().st_mode)
        except (FileNotFoundError, NotADirectoryError):
            return False

    def size_bytes(self, session_uuid: SessionUuid, table_uuid: TableUuid) -> int:
        """Return the total size of a table's regular files."""
        with self._open_table(session_uuid, table_uuid) as table:
            return size_bytes(table)

    def sum_data_files(
        self, session_uuid: SessionUuid, table_uuid: TableUuid, measure: Callable[[BinaryIO], int]
    ) -> int:
        """Return the sum of a measure over the files of a table that Spark reads."""
        with self._open_table(session_uuid, table_uuid) as table:
            return sum_data_files(table, measure)

    @contextmanager
    def _open_table(self, session_uuid: SessionUuid, table_uuid: TableUuid) -> Iterator[int]:
        with (
            open_directory(self.path(session_uuid)) as location,
            open_directory(check_uuid(table_uuid), location) as table,
        ):
            yield table

    def _directories(self, session_uuid: SessionUuid) -> Iterator[str]:
        try:
            with open_directory(self.path(session_uuid)) as location, os.scandir(location) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        yield entry.name
        except (FileNotFoundError, NotADirectoryError):
            return


@contextmanager
def _new_directory(name: str, parent: int, owner: os.stat_result) -> Iterator[int]:
    """Create a directory for an owner, unless it exists, and yield its descriptor."""
    with suppress(FileExistsError):
        os.mkdir(name, 0o700, dir_fd=parent)
    with open_directory(name, parent) as descriptor:
        os.fchmod(descriptor, 0o700)
        if os.geteuid() != owner.st_uid:
            os.fchown(descriptor, owner.st_uid, owner.st_gid)
        yield descriptor


def _may_be_directory(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:  # not all file systems list types, and an entry that cannot be read must not hide the others
        return True


def _check_owner(path: Path, owner: Owner) -> None:
    """Check the owner of a session location and set its mode to 0700.

    Raises:
        FileNotFoundError: If the location does not exist.
        NotADirectoryError: If a link or a file has the name of the location.
        OwnerError: If the location belongs to another OS user.
    """
    with open_directory(path) as descriptor:
        found = os.fstat(descriptor).st_uid
        if found != owner.uid:
            raise OwnerError(errno.EPERM, f"The session location belongs to uid {found}, not {owner.uid}", str(path))
        os.fchmod(descriptor, 0o700)
