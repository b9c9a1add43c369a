"""Temporary tables of cloned sessions.

The backend clones a session with its views, so the clone first sees the tables of its parent. Here it gets copies of
its own: later changes of the parent's tables do not concern it.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from gateway.errors import GatewayError
from gateway.sessions.registry import Sessions
from gateway.sessions.session import Session
from gateway.storage import Storage
from gateway.stored_tables.table_plans import build_session_table, encode_schema
from gateway.tables.execution import StatementExecutor, new_directory
from gateway.tables.quotas import Quotas
from gateway.tables.records import TableRecords
from gateway.tables.statement_context import Execution
from workspace.identifiers import ReplicaId, TableUuid
from workspace.record_changes import find_table, put_table, remove_table
from workspace.records import PendingWrite, TableState, TemporaryTable, WriteKind

_COPY_ATTEMPTS = 5


class TableCopies:
    """Copies temporary tables from a session to its clone.

    Args:
        replica: This replica.
        storage: The session records and session locations.
        sessions: The sessions that this replica serves.
        executor: The owner of the views and of the deletion.
        quotas: The quotas of temporary tables.
    """

    def __init__(
        self, replica: ReplicaId, storage: Storage, sessions: Sessions, executor: StatementExecutor, quotas: Quotas
    ) -> None:
        self._replica = replica
        self._storage = storage
        self._sessions = sessions
        self._executor = executor
        self._quotas = quotas
        self._records = TableRecords(storage)

    async def copy_all(self, before: Sequence[TemporaryTable], parent: Session, execution: Execution) -> None:
        """Give a clone copies of its parent's tables.

        Args:
            before: The parent's tables before the backend cloned the session.
            parent: The parent.
            execution: An execution in the clone.

        Raises:
            GatewayError: The principal would have too many tables, or the backend or the storage failed.
            OSError: The storage failed.
        """
        await self._quotas.check_principal_tables(execution.session, len(before))
        await self._sessions.create_location(execution.session)
        tables = (await self._records.read(parent)).tables
        for name in {table.name for table in before} - {table.name for table in tables if table.parts}:
            await execution.backend.drop_temp_view(name)
        for table in tables:
            if table.state is TableState.READY:
                await self._copy(table, parent, execution)

    async def _copy(self, table: TemporaryTable, parent: Session, execution: Execution) -> None:
        """Copy a table as it is now. Start again if the parent changes it during the copy."""
        clone = execution.session
        schema = await execution.backend.analyze_schema(build_session_table(table.name))
        for _ in range(_COPY_ATTEMPTS):
            parts = [(part, new_directory()) for part in table.parts]
            writes = tuple(
                PendingWrite(new, execution.operation.id, self._replica, encode_schema(schema), WriteKind.CREATION)
                for _, new in parts
            )
            copy = replace(table, uuid=parts[0][1], state=TableState.CREATING, parts=(), writes=writes)
            await self._records.change(clone, partial(put_table, table=copy))
            try:
                await self._storage.run_slow(self._copy_parts, parent, clone, parts)
            except FileNotFoundError:
                await self._records.change(clone, partial(remove_table, name=copy.name))
                await self._executor.deletion.delete(clone, [new for _, new in parts])
                current = find_table(await self._records.read(parent), table.name)
                if current is None or current.uuid != table.uuid:
                    await execution.backend.drop_temp_view(table.name)
                    return
                table = current
                continue
            complete = replace(copy, state=TableState.READY, parts=tuple(new for _, new in parts), writes=())
            await self._executor.views.create(execution, complete, schema)
            await self._records.change(clone, partial(put_table, table=complete))
            return
        raise GatewayError(
            "LODGE_SESSION_BUSY",
            "40001",
            f"The session cannot be cloned: its temporary table [{table.name}] changes too often. Clone the session "
            "again when no statement changes the table.",
        )

    def _copy_parts(self, parent: Session, clone: Session, parts: Sequence[tuple[TableUuid, TableUuid]]) -> None:
        for old, new in parts:
            self._storage.locations.copy_table((parent.uuid, old), (clone.uuid, new))
