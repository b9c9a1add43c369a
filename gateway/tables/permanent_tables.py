"""Permanent tables: ``CREATE TABLE dfs.t AS`` and ``DROP TABLE dfs.t``.

A permanent table is a directory in a workspace. Everyone who has access to the workspace can read the table. The
backend first writes the files to the session location. Then Lodge moves the whole directory into the workspace, so that
readers never see an incomplete table.

The creator of a table is its owner. With authentication, only the owner, members of the owner's groups and
administrators may drop the table. No other statement changes a permanent table.

Source: [temporary-tables §5.1.8, §5.2, §5.4].
"""

import asyncio
import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import structlog
from pyspark.sql.types import StructType

from gateway.auditing.audit import Audit
from gateway.authorization.authorization import Authorization, owner_groups
from gateway.backends.followed_operation import ExecutionResult
from gateway.blocking_work.current_work import noted
from gateway.blocking_work.current_workspaces import CurrentWorkspaces
from gateway.blocking_work.file_systems import file_systems
from gateway.blocking_work.storage import Storage
from gateway.errors import ACCESS_DENIED, GatewayError, access_denied
from gateway.operations.drain import Drain, GatewayStoppingError
from gateway.operations.responses import Response, build_row_response
from gateway.sessions.registry import Sessions
from gateway.sessions.session import Session
from gateway.stored_tables.storage_formats import unsupported_partitions
from gateway.stored_tables.table_descriptions import TableDescription, list_permanent_tables
from gateway.tables.answers import created, not_created, table_dropped
from gateway.tables.background import run_to_completion
from gateway.tables.changes import begin_once, give_up, publish_permanent, remove_write, undo_after_response
from gateway.tables.execution import StatementExecutor, is_lost_at_backend, new_directory
from gateway.tables.new_tables import NewTable
from gateway.tables.records import TableRecords
from gateway.tables.statement_context import Execution
from gateway.tables.table_errors import AlreadyExistsError, permanent_table_unknown, statement_lost
from gateway.tables.workspace_directories import Publication, check_table_name, is_name_used, remove_table
from gateway.tables.written_rows import WrittenDirectory, written_rows
from workspace.files.table_owners import TableOwners
from workspace.identifiers import Principal, ReplicaId
from workspace.record_changes import add_answer
from workspace.records import Answer, PendingWrite, SessionRecord
from workspace.table_owners import TableOwner
from workspace.workspaces import Workspace

log = structlog.get_logger(__name__)


class PermanentTables:
    """Creates and drops permanent tables.

    Args:
        replica: The name of this replica.
        storage: The session records and session locations.
        sessions: The sessions that this replica serves.
        executor: Creates and deletes the directories to which the backend writes.
        workspaces: The configured workspaces.
        authorization: Decides who may drop a table.
        audit: The audit events of this replica.
        drain: What this replica does when it stops.
    """

    def __init__(
        self,
        replica: ReplicaId,
        storage: Storage,
        sessions: Sessions,
        executor: StatementExecutor,
        *,
        workspaces: CurrentWorkspaces,
        authorization: Authorization,
        audit: Audit,
        drain: Drain,
    ) -> None:
        self._audit = audit
        self._drain = drain
        self._workspaces = workspaces
        self._authorization = authorization
        self._replica = replica
        self._storage = storage
        self._records = TableRecords(storage)
        self._sessions = sessions
        self._executor = executor

    async def exists(self, workspace: Workspace, name: str) -> bool:
        """Return whether a workspace contains an entry with the given name."""
        return await self._storage.read_workspace(is_name_used, workspace, name)

    async def names(self, workspace: Workspace) -> Sequence[str]:
        """Return the names of the permanent tables in a workspace."""
        return await self._storage.read_workspace(list_permanent_tables, workspace)

    async def create(self, execution: Execution, workspace: Workspace, new: NewTable) -> Response:
        """Create a permanent table.

        Args:
            execution: The statement.
            workspace: The workspace of the table.
            new: The table to create.

        Returns:
            The answer of the statement.

        Raises:
            GatewayError: If the statement failed. The statement is undone.
        """
        session = execution.session
        check_table_name(workspace, new.name)
        if await self.exists(workspace, new.name):
            error = AlreadyExistsError(new.name, workspace.name)
            if new.if_not_exists:
                return not_created(error.text)
            raise error
        if new.partition_columns and new.storage.name != "parquet":
            raise unsupported_partitions(new.storage)
        schema = await new.schema(execution)
        write = PendingWrite(new_directory(), execution.operation.id, self._replica)
        owner_id = str(uuid.uuid4())
        owner = TableOwner(session.key.principal, owner_groups(execution.identity), workspace.name, new.name)
        description = TableDescription(schema, new.storage.name, dict(new.options), owner_id)
        publication = Publication(workspace, new.name, description)
        rows = 0
        try:
            self._sessions.lease.require_joined(session)
            self._drain.require_not_stopping()
            operation = execution.operation
            begin = begin_once(
                write,
                lambda record: replace(record, writes=(*record.writes, write)),
                is_relation=operation.is_relation,
            )
            await self._records.change(session, begin)
            path = await self._executor.create_path(session, write.directory)
            writing = asyncio.create_task(
                noted(
                    execution.backend.operations.execute(
                        new.plan(path), operation_id=write.directory, on_progress=operation.progress
                    )
                )
            )
            with self._drain.finishing(writing.cancel):
                result = await writing
            operation.server_side_session_id = result.server_side_session_id
            rows = await self._count_rows(execution, result, write, new, schema)
            self._sessions.lease.require_joined(session)
            await self._records.change(session, lambda record: publish_permanent(record, write))
            file_systems.require_responsive(workspace)
            await self._storage.change_workspace(self._publish, publication, Path(path), owner_id, owner)
        except BaseException as error:
            if not publication.is_done:
                is_awaited = isinstance(error, GatewayStoppingError) and execution.operation.has_responded
                await run_to_completion(self._undo(session, write, undo_after_response if is_awaited else remove_write))
                # A client does not send a statement again after a response, and the backend's error about a lost
                # operation names an operation that the client does not know.
                if is_awaited or is_lost_at_backend(error):
                    raise statement_lost() from error
                if new.if_not_exists and isinstance(error, AlreadyExistsError):
                    return not_created(error.text)
                raise
        values = created(rows)
        answer = Answer(execution.operation.id, tuple(values.items()))
        try:
            await self._records.change(session, lambda record: add_answer(remove_write(record, write), answer))
        except GatewayError as error:  # the table exists; the reaper removes the write from the record
            log.warning("table_answer_not_kept", table=new.name, reason=str(error))
        log.info("table_created", table=new.name, workspace=workspace.name, rows=rows)
        return build_row_response(values)

    async def _count_rows(
        self, execution: Execution, result: ExecutionResult, write: PendingWrite, new: NewTable, schema: StructType
    ) -> int:
        session, options = execution.session, new.storage.options(dict(new.options))
        written = WrittenDirectory(session.uuid, write.directory, new.name, schema, new.storage.name, options)
        try:
            return await written_rows(self._storage, execution.backend, result, written)
        except FileNotFoundError:
            if write not in (await self._records.read(session)).writes:
                raise statement_lost() from None  # another gateway undid it
            raise

    async def _undo(
        self, session: Session, write: PendingWrite, remove: Callable[[SessionRecord, PendingWrite], SessionRecord]
    ) -> None:
        try:
            await self._records.change(session, lambda record: remove(record, write))
        except GatewayError as error:
            log.warning("statement_undo_left", reason=str(error))
            return
        await self._executor.deletion.delete(session, [write.directory])

    async def give_up(self, session: Session, write: PendingWrite) -> NoReturn:
        """End the creation of a permanent table whose gateway is lost.

        Only the lost gateway knows the table and whether it has moved the table into the workspace.

        Args:
            session: The session of the statement.
            write: The write, as the caller read it from the session record.

        Raises:
            ChangeTakenError: If the write is different from what the caller read.
            GatewayError: In all other cases. The error says whether the statement is undone.
        """
        await self._records.change(session, lambda record: give_up(record, write))
        await self._executor.deletion.delete(session, [write.directory])
        raise permanent_table_unknown() if write.is_published else statement_lost()

    async def drop(self, execution: Execution, workspace: Workspace, name: str) -> Response:
        """Drop a permanent table.

        Args:
            execution: The statement.
            workspace: The workspace of the table.
            name: The name of the table.

        Returns:
            The answer of the statement.

        Raises:
            GatewayError: If the directory was not created by ``CREATE TABLE``, or the client may not drop the table.
        """
        file_systems.require_responsive(workspace)
        principal, table = execution.session.key.principal, f"{workspace.name}.{name}"
        try:
            owner = await self._storage.change_workspace(self._drop, execution, workspace, name)
        except GatewayError as error:
            if error.condition == ACCESS_DENIED:
                self._audit.access_refused(target="table", name=table, reason=error.text)
            raise
        if self._authorization.is_admin(execution.identity) and owner != principal:
            self._audit.administrative_act("drop_table", target=table, owner=owner or "")
        log.info("table_dropped", table=name, workspace=workspace.name)
        return table_dropped(name)

    def _publish(self, publication: Publication, source: Path, owner_id: str, owner: TableOwner) -> None:
        owners = self._owners()
        if owners is not None:
            owners.write(owner_id, owner)
        try:
            publication.run(source)
        finally:
            if owners is not None and not publication.is_done:
                owners.remove(owner_id)

    def _drop(self, execution: Execution, workspace: Workspace, name: str) -> Principal | None:
        """Drop a table, and return its owner if one was recorded."""
        owners = self._owners()
        principal: Principal | None = None

        def check(description: TableDescription) -> None:
            nonlocal principal
            owner = None if owners is None else owners.read(description.owner_id, workspace.name, name)
            principal = None if owner is None else owner.principal
            if self._authorization.may_drop(execution.identity, owner):
                return
            advice = (
                "No owner of the table is recorded, so only an administrator can drop it."
                if owner is None
                else "Only its owner, members of the owner's groups and administrators can drop it."
            )
            raise access_denied(execution.session.key.principal, f"drop table [{workspace.name}.{name}]", advice)

        description = remove_table(workspace, name, check)
        if description is not None and owners is not None:
            owners.remove(description.owner_id)
        return principal

    def _owners(self) -> TableOwners | None:
        """Return the owners of tables. None if the default temporary workspace is in an object store."""
        workspace = self._workspaces.now.temporary
        return TableOwners(workspace.root) if workspace.is_file_based else None
