"""Deletes the directories of temporary tables.

The deletion has two steps. First, the statement moves the directory to the trash in one atomic step. Then a background
task removes the files.

Guarantee: callers pass only directories that no session record refers to. They know this because they have just changed
the record.

Not guaranteed: if the storage fails, directories may remain. The reaper finds and removes them.
"""

import asyncio
from collections.abc import Iterable, Sequence

import structlog

from gateway.blocking_work.storage import Storage
from gateway.errors import GatewayError
from gateway.sessions.session import Session
from gateway.tables.background import BackgroundTasks
from workspace.identifiers import SessionUuid, TableUuid

_READERS_SECONDS = 600.0
"""How long the files of merged parts stay for the queries that began to read them before."""

log = structlog.get_logger(__name__)


class DirectoryDeletion:
    """Deletes directories of temporary tables.

    Args:
        storage: The storage of the session locations.
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._purges = BackgroundTasks()
        self._delayed = BackgroundTasks()
        self._merged: dict[TableUuid, set[TableUuid]] = {}

    async def wait(self) -> None:
        """Wait until the files of all deleted directories are removed."""
        self._delayed.cancel()
        await self._delayed.wait()
        await self._purges.wait()

    async def delete(self, session: Session, directories: Iterable[TableUuid]) -> None:
        """Move directories to the trash, and remove their files in the background.

        Args:
            session: The session whose location contains the directories.
            directories: The names of the directories.
        """
        names = tuple(directories)
        if not names:
            return
        try:
            await self._storage.run_location(self._move_to_trash, session.uuid, names)
        except (OSError, GatewayError) as error:
            log.warning("temporary_table_files_left", directories=names, reason=str(error))
            return
        self._purges.start(self._purge_later(session.uuid, names))

    def delete_later(self, session: Session, table: TableUuid, directories: Iterable[TableUuid]) -> None:
        """Delete directories that running queries may still read, at the latest with their table.

        If this replica stops before, the reaper deletes them.
        """
        names = tuple(directories)
        self._merged.setdefault(table, set()).update(names)
        self._delayed.start(self._wait_and_delete(session, table, names))

    async def delete_merged(self, session: Session, table: TableUuid) -> None:
        """Delete the directories of a table that were to be deleted later."""
        await self.delete(session, self._merged.pop(table, ()))

    async def _wait_and_delete(self, session: Session, table: TableUuid, names: Sequence[TableUuid]) -> None:
        await asyncio.sleep(_READERS_SECONDS)
        waiting = self._merged.get(table, set())
        due = waiting & set(names)
        waiting -= due
        if not waiting:
            self._merged.pop(table, None)
        await self.delete(session, due)

    async def _purge_later(self, session_uuid: SessionUuid, names: Sequence[TableUuid]) -> None:
        try:
            await self._storage.run_slow(self._purge, session_uuid, names)
        except (OSError, GatewayError) as error:
            log.warning("temporary_table_files_left", directories=names, reason=str(error))

    def _move_to_trash(self, session_uuid: SessionUuid, names: Sequence[TableUuid]) -> None:
        for name in names:
            self._storage.locations.remove_table(session_uuid, name)

    def _purge(self, session_uuid: SessionUuid, names: Sequence[TableUuid]) -> None:
        for entry in self._storage.locations.trash_of(session_uuid):
            if any(name in entry for name in names):
                self._storage.locations.purge(entry)
