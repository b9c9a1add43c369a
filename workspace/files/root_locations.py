"""Session locations below one root; see :mod:`workspace.locations` for the guarantees."""

import errno
import os
import stat
from collections.abc import Iterator, Set
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from workspace.files.layout import Layout
from workspace.files.private_files import make_private_directory, open_directory, sync_directory
from workspace.files.sizes import size_below
from workspace.files.trash import Trash
from workspace.identifiers import check_uuid, is_uuid
from workspace.locations import LocationContents, Owner, OwnerError
from workspace.records import SessionUuid, TableUuid

_ATTEMPTS = 10
_MOST_DIRECTORIES = 10_000


@dataclass(frozen=True, slots=True)
class Stamp:
    """Differs after any change of the names in a directory; its owner cannot set it back."""

    inode: int
    changed_ns: int


class RootLocations:
    """The session locations below one root."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self.trash = Trash(layout)

    def path(self, session_uuid: SessionUuid) -> Path:
        return self._layout.root / check_uuid(session_uuid)

    def create(self, session_uuid: SessionUuid, owner: Owner | None) -> Path:
        path = self.path(session_uuid)
        if owner is None:
            make_private_directory(path)
            return path
        with suppress(FileNotFoundError):
            _require_owner(path, owner)
            return path
        for _ in range(_ATTEMPTS):
            try:
                self._make_for(path, owner)
            except FileNotFoundError:  # the reaper took it for trash meanwhile
                continue
            except OSError as error:
                if error.errno not in {errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR}:
                    raise
            _require_owner(path, owner)
            return path
        raise FileNotFoundError(errno.ENOENT, "A session location was removed again and again", str(path))

    def _make_for(self, path: Path, owner: Owner) -> None:
        """Makes a location in the trash, where nobody else can see it and a crash leaves nothing, then gives it its
        name."""
        made = Path(self.trash.new_location(path.name))
        make_private_directory(made)
        with open_directory(made) as descriptor:
            os.fchown(descriptor, owner.uid, owner.gid)
            os.fchmod(descriptor, 0o700)
        made.rename(path)

    def list(self) -> Set[SessionUuid]:
        with os.scandir(self._layout.root) as entries:
            return {
                SessionUuid(entry.name)
                for entry in entries
                if is_uuid(entry.name) and entry.is_dir(follow_symlinks=False)
            }

    def stamp(self, session_uuid: SessionUuid) -> Stamp | None:
        """None if there is no such location."""
        try:
            status = self.path(session_uuid).lstat()
        except FileNotFoundError:
            return None
        return Stamp(status.st_ino, status.st_ctime_ns) if stat.S_ISDIR(status.st_mode) else None

    def contents(self, session_uuid: SessionUuid) -> LocationContents:
        """What is in a location; of very many directories, some. Of none, nothing."""
        tables, foreign = set[TableUuid](), 0
        for name in islice(self._directories(session_uuid), _MOST_DIRECTORIES):
            if is_uuid(name):
                tables.add(TableUuid(name))
            else:
                foreign += 1
        return LocationContents(tables, foreign)

    def move_to_trash(self, session_uuid: SessionUuid) -> bool:
        moved = self.trash.take(self.path(session_uuid), None, session_uuid)
        if moved:
            sync_directory(self._layout.root)
        return moved

    def remove_table(self, session_uuid: SessionUuid, table_uuid: TableUuid) -> bool:
        table = Path(check_uuid(table_uuid))
        try:
            with open_directory(self.path(session_uuid)) as location:
                return self.trash.take(table, location, f"{session_uuid}.{table_uuid}")
        except FileNotFoundError:
            self.trash.require()
            return False

    def table(self, session_uuid: SessionUuid, table_uuid: TableUuid) -> Path:
        return self.path(session_uuid) / check_uuid(table_uuid)

    def has_table(self, session_uuid: SessionUuid, table_uuid: TableUuid) -> bool:
        try:
            return stat.S_ISDIR(self.table(session_uuid, table_uuid).lstat().st_mode)
        except (FileNotFoundError, NotADirectoryError):
            return False

    def size_bytes(self, session_uuid: SessionUuid, table_uuid: TableUuid) -> int:
        with (
            open_directory(self.path(session_uuid)) as location,
            open_directory(Path(check_uuid(table_uuid)), location) as table,
        ):
            return size_below(table)

    def _directories(self, session_uuid: SessionUuid) -> Iterator[str]:
        try:
            with open_directory(self.path(session_uuid)) as location, os.scandir(location) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        yield entry.name
        except (FileNotFoundError, NotADirectoryError):
            return


def _require_owner(path: Path, owner: Owner) -> None:
    """Gives a location its mode. Raises: FileNotFoundError; NotADirectoryError; OwnerError."""
    with open_directory(path) as descriptor:
        found = os.fstat(descriptor).st_uid
        if found != owner.uid:
            raise OwnerError(errno.EPERM, f"The session location belongs to uid {found}, not {owner.uid}", str(path))
        os.fchmod(descriptor, 0o700)
