"""Session locations of one process, stored in the simulated storage.

They correspond to :mod:`workspace.files.session_locations`. The contract test suite of session locations runs against
them, except for its tests of files.
"""

import errno
from collections.abc import Callable, Hashable, Sequence, Set
from pathlib import Path
from typing import BinaryIO, TypeVar

from tests.simulation.network import Network
from tests.simulation.schedule import Process
from tests.simulation.storage import FILE_BYTES, Storage
from workspace.identifiers import SessionUuid, TableUuid, check_uuid
from workspace.locations import LocationContents, Owner
from workspace.storage_paths import StoragePath
from workspace.trash_entries import TrashEntry, session_of

_Result = TypeVar("_Result")


class ModelLocations:
    """Implementation of :class:`workspace.locations.SessionLocations` with one root.

    Args:
        process: The calling process.
        storage: Stores the locations.
        network: Carries the calls.
        on_change: Called before a location is created or moved to the trash.
    """

    def __init__(
        self,
        process: Process,
        storage: Storage,
        network: Network,
        on_change: Callable[[str, SessionUuid], object] = lambda operation, session: None,
    ) -> None:
        self._process = process
        self._storage = storage
        self._network = network
        self._on_change = on_change

    @property
    def home(self) -> Path:
        return self._storage.root

    def initialise(self) -> None:
        """Do nothing: the simulated storage needs no set-up."""

    def set_current_root(self, root: StoragePath) -> None:
        raise NotImplementedError("The simulation does not move workspaces.")

    def known_roots(self) -> Sequence[StoragePath]:
        return [self._storage.root]

    def roots(self) -> Sequence["ModelLocations"]:
        self._call("list roots", lambda: None)
        return [self]

    def path(self, session_uuid: SessionUuid) -> Path:
        return self._storage.root / check_uuid(session_uuid)

    def create(self, session_uuid: SessionUuid, owner: Owner | None = None) -> StoragePath:
        path = self.path(session_uuid)

        def create() -> None:
            self._on_change("create", session_uuid)
            self._storage.create(session_uuid)

        self._call("create location", create)
        return path

    def create_table(self, session_uuid: SessionUuid, table_uuid: TableUuid, file: Sequence[str]) -> None:
        check_uuid(session_uuid), check_uuid(table_uuid)
        self._call("create table", lambda: self._storage.write(session_uuid, table_uuid, None))

    def list(self) -> Set[SessionUuid]:
        return self._call("list locations", lambda: set(self._storage.locations))

    def paths(self, session_uuid: SessionUuid) -> Sequence[StoragePath]:
        check_uuid(session_uuid)
        return self._call("find location", lambda: list(self._storage.paths_of(session_uuid)))

    def stamp(self, session_uuid: SessionUuid) -> Hashable:
        def snapshot() -> Hashable:
            location = self._storage.locations.get(session_uuid)
            return None if location is None else location.stamp

        return snapshot()  # part of the preceding list's request: a further step would show nothing new

    def contents(self, session_uuid: SessionUuid) -> LocationContents:
        def snapshot() -> LocationContents:
            location = self._storage.locations.get(session_uuid)
            return LocationContents(frozenset(location.tables if location is not None else ()), 0)

        return self._call("read location", snapshot)

    def move_to_trash(self, session_uuid: SessionUuid) -> Sequence[StoragePath]:
        path = self.path(session_uuid)

        def move_to_trash() -> bool:
            self._on_change("remove", session_uuid)
            return self._storage.move_to_trash(session_uuid)

        return [path] if self._call("move location to trash", move_to_trash) else []

    def remove_table(self, session_uuid: SessionUuid, table_uuid: TableUuid) -> bool:
        check_uuid(session_uuid), check_uuid(table_uuid)
        return self._call("remove table", lambda: self._storage.remove_table(session_uuid, table_uuid))

    def table_paths(self, session_uuid: SessionUuid, tables: Sequence[TableUuid]) -> Sequence[StoragePath]:
        location = self.path(session_uuid)
        return self._call("find directories", lambda: [location / check_uuid(table) for table in tables])

    def size_bytes(self, session_uuid: SessionUuid, table_uuid: TableUuid) -> int:
        check_uuid(session_uuid), check_uuid(table_uuid)
        found = self._call("measure table", lambda: self._storage.table(session_uuid, table_uuid))
        if found is None:
            raise FileNotFoundError(errno.ENOENT, "No such directory in the simulated storage", table_uuid)
        return len(found.files) * FILE_BYTES

    def sum_data_files(
        self, session_uuid: SessionUuid, table_uuid: TableUuid, measure: Callable[[BinaryIO], int]
    ) -> int:
        """Return the number of files of a table, each of which contains one row."""
        return self.size_bytes(session_uuid, table_uuid) // FILE_BYTES

    def copy_table(self, source: tuple[SessionUuid, TableUuid], target: tuple[SessionUuid, TableUuid]) -> None:
        raise NotImplementedError("The simulation does not clone sessions.")

    def trash(self) -> Sequence[TrashEntry]:
        return self._call("list trash", lambda: list(self._storage.trash))

    def trash_of(self, session_uuid: SessionUuid) -> Sequence[TrashEntry]:
        check_uuid(session_uuid)
        return [entry for entry in self.trash() if session_of(entry) == session_uuid]

    def purge(self, entry: TrashEntry, should_stop: Callable[[], bool] = lambda: False) -> bool:
        if not entry.startswith(f"{self._storage.root}/.lodge/trash/") or entry.rpartition("/")[2] in {"", ".", ".."}:
            raise ValueError(f"{entry!r} is not an entry of the trash.")
        while self._call("purge", lambda: self._storage.purge_one(entry)):
            if should_stop():
                return False
        return True

    def _call(self, operation: str, effect: Callable[[], _Result]) -> _Result:
        return self._network.call(self._process, self._storage, operation, effect)
