"""A model of the shared storage: session locations with tables, and the trash.

A removal races with writers that do not know of it. Each change is therefore a step of its own: the rename of a
location, the creation of a directory, the write of one file, the removal of one file from the trash. A late writer
creates missing parent directories, as Spark's writers do.
"""

import errno
from collections.abc import Callable, Iterator, MutableMapping
from dataclasses import dataclass, field
from pathlib import Path

from workspace.identifiers import SessionUuid, TableUuid
from workspace.trash_entries import TrashEntry

FILE_BYTES = 100


@dataclass(slots=True)
class TableDirectory:
    """The directory of one part of a table.

    Attributes:
        files: The numbers of the written files.
    """

    files: set[int] = field(default_factory=set)


@dataclass(slots=True)
class Location:
    """A session location.

    Attributes:
        stamp: Changes with each change of the names in the location.
        tables: The directories in the location.
    """

    stamp: int
    tables: MutableMapping[TableUuid, TableDirectory] = field(default_factory=dict)


OnRemoval = Callable[[SessionUuid, TableUuid | None], object]
"""Receives the session and, if only a table's directory moves to the trash, the table."""


class Storage:
    """The files. Each method takes effect at once.

    Args:
        root: The root of the default temporary workspace.
        on_removal: Called before each removal takes effect.
    """

    def __init__(self, root: Path, on_removal: OnRemoval = lambda session, table: None) -> None:
        self.name = "storage"
        self.root = root
        self.locations: MutableMapping[SessionUuid, Location] = {}
        self.trash: MutableMapping[TrashEntry, int] = {}
        self._on_removal = on_removal
        self._last_number = 0

    def create_unavailable_error(self, reason: str) -> Exception:
        return OSError(errno.EIO, f"The simulated storage is unavailable: {reason}")

    def create(self, session_uuid: SessionUuid) -> None:
        if session_uuid not in self.locations:
            self.locations[session_uuid] = Location(self._next_number())

    def write(self, session_uuid: SessionUuid, table: TableUuid, number: int | None) -> None:
        """Create a table's directory and parents, and write a file if it has a number."""
        self.create(session_uuid)
        location = self.locations[session_uuid]
        if table not in location.tables:
            location.tables[table] = TableDirectory()
            location.stamp = self._next_number()
        if number is not None:
            location.tables[table].files.add(number)

    def table(self, session_uuid: SessionUuid, table: TableUuid) -> TableDirectory | None:
        location = self.locations.get(session_uuid)
        return None if location is None else location.tables.get(table)

    def move_to_trash(self, session_uuid: SessionUuid) -> bool:
        location = self.locations.get(session_uuid)
        if location is None:
            return False
        self._on_removal(session_uuid, None)
        del self.locations[session_uuid]
        self._add_to_trash(session_uuid, 1 + len(location.tables))
        return True

    def remove_table(self, session_uuid: SessionUuid, table: TableUuid) -> bool:
        location = self.locations.get(session_uuid)
        if location is None or table not in location.tables:
            return False
        self._on_removal(session_uuid, table)
        del location.tables[table]
        location.stamp = self._next_number()
        self._add_to_trash(f"{session_uuid}.{table}", 1)
        return True

    def purge_one(self, entry: TrashEntry) -> bool:
        """Remove one file of an entry of the trash, and return whether files remain."""
        left = self.trash.get(entry, 0) - 1
        if left > 0:
            self.trash[entry] = left
            return True
        self.trash.pop(entry, None)
        return False

    def paths_of(self, session_uuid: SessionUuid) -> Iterator[Path]:
        if session_uuid in self.locations:
            yield self.root / session_uuid

    def _add_to_trash(self, name: str, things: int) -> None:
        self.trash[TrashEntry(f"{self.root}/.lodge/trash/{name}.{self._next_number():016x}")] = things

    def _next_number(self) -> int:
        self._last_number += 1
        return self._last_number
