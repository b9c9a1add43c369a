"""Temporary tables of cloned sessions.

The backend clones a session together with its views, so that the clone first reads the tables of its parent. This
module copies the tables, so that later changes to the tables of the parent do not affect the clone.
"""

import uuid
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from pyspark.sql.connect.proto import base_pb2

from gateway.blocking_work.storage import Storage
from gateway.errors import GatewayError
from gateway.messages.error_status import Metadata
from gateway.messages.statement_request import StatementRequest
from gateway.sessions.registry import Sessions
from gateway.sessions.session import Session
from gateway.stored_tables.table_plans import build_session_table, encode_schema
from gateway.tables.changes import begin_copy
from gateway.tables.execution import StatementExecutor, new_directory
from gateway.tables.quotas import Quotas
from gateway.tables.records import TableRecords
from gateway.tables.statement_context import Execution, execution_of
from workspace.identifiers import ReplicaId, TableUuid
from workspace.record_changes import find_table, put_table, remove_table
from workspace.records import PendingWrite, SessionRecord, TableState, TemporaryTable, WriteKind

_COPY_ATTEMPTS = 5


class TableCopies:
    """Copies temporary tables from a session to its clone.

    Args:
        replica: The name of this replica.
        storage: The session records and session locations.
        sessions: The sessions that this replica serves.
        executor: Creates views and deletes directories.
        quotas: The quotas for temporary tables.
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

    async def before_clone(self, session: Session) -> SessionRecord:
        """Return the record of a session that the backend is about to clone."""
        return await self._records.read(session)

    async def copy_to_clone(
        self,
        before: SessionRecord,
        parent: Session,
        clone: Session,
        request: base_pb2.CloneSessionRequest,
        metadata: Metadata,
    ) -> None:
        """Copy the temporary tables of a session to its clone.

        Args:
            before: The record of the parent session, read before the backend cloned the session.
            parent: The session that was cloned.
            clone: The new session.
            request: The request of the client.
            metadata: The metadata of the request.

        Raises:
            GatewayError: If the principal would exceed its quota, or the backend or the storage fails.
            OSError: If the storage fails.
        """
        if not before.tables:
            return
        statement = StatementRequest(
            clone.key.client_session_id, request.user_context, str(uuid.uuid4()), request.client_type
        )
        await self._copy_all(before.tables, parent, execution_of(clone, statement, metadata))

    async def _copy_all(self, before: Sequence[TemporaryTable], parent: Session, execution: Execution) -> None:
        await self._quotas.check_principal_tables(execution.session, len(before))
        await self._sessions.locations.create(execution.session)
        tables = (await self._records.read(parent)).tables
        for name in {table.name for table in before} - {table.name for table in tables if table.parts}:
            await execution.backend.drop_temp_view(name)
        for table in tables:
            if table.state is TableState.READY:
                await self._copy(table, parent, execution)

    async def _copy(self, table: TemporaryTable, parent: Session, execution: Execution) -> None:
        """Copy the current version of a table.

        If the parent changes the table during the copy, the copy starts again.
        """
        clone = execution.session
        schema = await execution.backend.analyze_schema(build_session_table(table.name))
        for _ in range(_COPY_ATTEMPTS):
            parts = [(part, new_directory()) for part in table.parts]
            writes = [
                PendingWrite(new, execution.operation.id, self._replica, encode_schema(schema), WriteKind.CREATION)
                for _, new in parts
            ]
            copy = begin_copy(table, writes)
            record = await self._records.change(clone, partial(put_table, table=copy))
            await self._quotas.check_copies(clone, record)
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
