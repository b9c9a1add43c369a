"""Executes the statements that change temporary tables.

The effects of such a statement are stored in three places: the backend writes files, the backend session contains the
view, and the session record lists the directories of the table. The gateway, the client or the backend can fail between
any two steps, and other statements can change the table at the same time. Therefore the statement writes each step to
the session record before it acts, and reads the record again in every step::

    begun       the record contains the change and the replica that executes it; then the backend writes
    published   the record lists the result as rows of the table; from now on the change can only be completed
    completed   the view matches the record; the record contains the answer and no longer the change
    undone      instead of completed: the record is the same as before the statement

A drop is published as soon as it begins.

Guarantees:

1. The backend writes only to directories that are listed in the session record.
2. A statement that fails or is interrupted before it is complete is undone. A complete statement always has an answer,
   even if it is interrupted at the last moment.
3. If a replica is lost or hands over a change, the change is taken over by the replica to which the client reconnects,
   or in the background by a replica that serves or adopts the session. A begun change that nobody takes over is undone
   by the reaper. A fenced replica whose change was taken over follows the statement at the other replica. The client
   therefore receives no error for a statement that takes effect.
4. A statement begins once, even if a client sends it to several replicas at once under the same operation id.
5. The backend writes under a separate operation id, which is the name of the directory. If a client sends its own
   operation id to the backend, the backend responds with "not found". The client therefore never mistakes the result of
   the backend for the result of the whole statement.

Not guaranteed: a task of the backend may still write a file after the undo. The reaper finds such files.

Source: [architecture "Temporary tables"].
"""

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import replace
from typing import Any

import structlog
from pyspark.sql.connect.proto import base_pb2
from pyspark.sql.types import StructType

from gateway.backends.followed_operation import ExecutionResult
from gateway.blocking_work.current_work import noted
from gateway.blocking_work.storage import Storage
from gateway.errors import OPERATION_ABANDONED, OPERATION_NOT_FOUND, BackendError, GatewayError, storage_failed
from gateway.messages.error_status import condition_of
from gateway.operations.drain import Drain
from gateway.operations.responses import Response, build_row_response
from gateway.sessions.registry import Sessions
from gateway.sessions.session import Session
from gateway.stored_tables.partitions import in_partitions, partitions_of_files
from gateway.stored_tables.storage_formats import storage_options
from gateway.stored_tables.table_plans import ROWS_WRITTEN, build_count, decode_schema, to_spark_path
from gateway.tables.background import BackgroundTasks, run_to_completion
from gateway.tables.changes import (
    Written,
    begin_once,
    complete_with_answer,
    find_pending,
    hand_over,
    pending_change,
    publish,
    reserve,
    same_table,
    take_over,
)
from gateway.tables.deletion import DirectoryDeletion
from gateway.tables.quotas import CheckSize
from gateway.tables.records import TableRecords
from gateway.tables.statement_context import Execution
from gateway.tables.table_errors import (
    ChangeTakenError,
    StatementStartedError,
    statement_failed,
    statement_lost,
    statement_unfinished,
)
from gateway.tables.undo import Undo, UndoPendingError
from gateway.tables.view_sync import ViewSync, contents_of
from gateway.tables.written_rows import WrittenDirectory, written_rows
from workspace.identifiers import ReplicaId, TableUuid
from workspace.record_changes import find_answer
from workspace.records import (
    Answer,
    PendingChange,
    PendingDrop,
    PendingWrite,
    SessionRecord,
    TemporaryTable,
    WriteKind,
)

_ARRIVAL_SECONDS = 2.0
"""The time after which the backend has received the plan of a statement. Until then, its call is not cancelled."""

_OPERATION_LOST = (OPERATION_ABANDONED, OPERATION_NOT_FOUND)
"""Conditions with which a backend refuses to continue a write, because it does not have its operation any more."""

log = structlog.get_logger(__name__)


class TableChangedError(Exception):
    """A change of a table that happened after its view was created."""


class StatementExecutor:
    """Executes the statements that change temporary tables.

    Args:
        replica: The name of this replica.
        storage: The session records and session locations.
        sessions: The sessions that this replica serves.
        drain: What this replica hands over when it stops.
    """

    def __init__(self, replica: ReplicaId, storage: Storage, sessions: Sessions, drain: Drain) -> None:
        self._drain = drain
        self._replica = replica
        self._storage = storage
        self._sessions = sessions
        self._records = TableRecords(storage)
        self.views = ViewSync(storage)
        self.deletion = DirectoryDeletion(storage)
        self._undo = Undo(storage, sessions, self.views, self.deletion, self._complete)
        self._releases = BackgroundTasks()

    async def stop(self) -> None:
        """Wait for all deletions, and leave unfinished undos to the reaper."""
        await self._undo.stop()
        await self._releases.wait()
        await self.deletion.wait()

    async def create_path(self, session: Session, directory: TableUuid) -> str:
        """Create the session location, and return the path of a directory in it."""
        return to_spark_path(f"{await self._sessions.locations.create(session)}/{directory}")

    async def execute_write(
        self,
        execution: Execution,
        table: TemporaryTable,
        write: PendingWrite,
        *,
        begin: Callable[[SessionRecord], SessionRecord],
        plan: Callable[[str], Awaitable[base_pb2.Plan]],
        check_size: CheckSize | None,
    ) -> Response:
        """Execute a statement that writes rows.

        Args:
            execution: The statement.
            table: The table. For a new table, the description to store in the session record.
            write: The pending write that the session record will contain.
            begin: A function that adds the write to the session record.
            plan: A function that returns the plan for writing the rows to a path.
            check_size: A function that raises an error if the statement wrote too many bytes. None without a limit.

        Raises:
            ChangeTakenError: If another replica took over the statement while this replica was fenced.
            GatewayError: If the statement failed. The statement is undone.
        """

        async def run() -> Answer | None:
            await self._begin(execution, write, begin)
            written = execution.backend.operations.execute(
                await plan(await self.create_path(execution.session, write.directory)),
                operation_id=write.directory,
                on_progress=execution.operation.progress,
                keep=True,
            )
            return await self._publish_and_complete(execution, table, write, written, check_size)

        return await self._run_or_undo(execution, table, write, run)

    async def execute_drop(
        self,
        execution: Execution,
        table: TemporaryTable,
        drop: PendingDrop,
        begin: Callable[[SessionRecord], SessionRecord],
    ) -> Response:
        """Execute a statement that drops a table.

        Args:
            execution: The statement.
            table: The table.
            drop: The drop.
            begin: A function that adds the drop to the session record.

        Raises:
            ChangeTakenError: If another replica took over the statement while this replica was fenced.
            GatewayError: If the statement failed. The statement is undone.
        """

        async def run() -> Answer | None:
            await self._begin(execution, drop, begin)
            return await self._complete(execution, table, drop)

        return await self._run_or_undo(execution, table, drop, run)

    async def take_over(
        self, execution: Execution, table: TemporaryTable, write: PendingWrite, check_size: CheckSize | None
    ) -> Response:
        """Complete a write of a lost replica if the backend still runs the write.

        Raises:
            ChangeTakenError: If another replica took over the write.
            GatewayError: If the statement failed. The statement is undone.
        """
        own = replace(write, replica=self._replica)

        async def run() -> Answer | None:
            await self._take_over(execution, table, write)
            written = execution.backend.operations.follow(write.directory, on_progress=execution.operation.progress)
            return await self._publish_and_complete(execution, table, own, written, check_size)

        return await self._run_or_undo(execution, table, own, run)

    async def complete_for(self, execution: Execution, table: TemporaryTable, change: PendingChange) -> None:
        """Complete a change that a lost replica published.

        Raises:
            ChangeTakenError: If another replica took over the change.
            GatewayError: If the statement failed. The statement is undone.
        """
        own = replace(change, replica=self._replica)

        async def run() -> Answer | None:
            await self._take_over(execution, table, change)
            return await self._complete(execution, table, own)

        await self._run_or_undo(execution, table, own, run)

    async def _begin(
        self, execution: Execution, change: PendingChange, begin: Callable[[SessionRecord], SessionRecord]
    ) -> None:
        """Add a change to the record, unless the same statement has begun before.

        Raises:
            GatewayStoppingError: If the replica is stopping.
            StatementStartedError: If the record contains another change, or the answer, of the same operation.
        """
        self._sessions.lease.require_joined(execution.session)
        self._drain.require_not_stopping()
        once = begin_once(change, begin, is_relation=execution.operation.is_relation)
        await self._records.change(execution.session, once)

    def _require_lease(self, session: Session) -> None:
        """Check that this replica may complete a statement.

        Raises:
            GatewayStoppingError: If the lease has lapsed, and the replica stops. Another replica completes the
                statement.
            GatewayError: If the lease has lapsed otherwise.
        """
        try:
            self._sessions.lease.require_joined(session)
        except GatewayError:
            self._drain.require_open()
            raise

    async def _take_over(self, execution: Execution, table: TemporaryTable, change: PendingChange) -> None:
        """Assign a change to this replica, so that the former replica does not undo it."""
        self._sessions.lease.require_joined(execution.session)
        await self._records.change(execution.session, lambda record: take_over(record, table, change, self._replica))
        log.info("statement_taken_over", table=table.name, replica=change.replica)

    async def _publish_and_complete(
        self,
        execution: Execution,
        table: TemporaryTable,
        write: PendingWrite,
        written: Coroutine[Any, Any, ExecutionResult],
        check_size: CheckSize | None,
    ) -> Answer | None:
        result = await self._wait_for_rows(execution, written)
        await self._publish(execution, table, write, result, check_size)
        answer = await self._complete(execution, table, write)
        self._releases.start(execution.backend.operations.release(write.directory))
        return answer

    async def _wait_for_rows(
        self, execution: Execution, written: Coroutine[Any, Any, ExecutionResult]
    ) -> ExecutionResult:
        """Wait until the backend has written the rows.

        Raises:
            GatewayStoppingError: If the replica hands over the write. The backend continues to write.
        """
        writing = asyncio.create_task(noted(written))

        def leave() -> None:
            execution.backend.operations.leave_running()
            asyncio.get_running_loop().call_later(_ARRIVAL_SECONDS, writing.cancel)

        with self._drain.handing_over(leave):
            return await writing

    async def _publish(
        self,
        execution: Execution,
        table: TemporaryTable,
        write: PendingWrite,
        result: ExecutionResult,
        check_size: CheckSize | None,
    ) -> None:
        session, locations = execution.session, self._storage.locations
        execution.operation.server_side_session_id = result.server_side_session_id
        execution.operation.observed = [each for each in result.metrics if not each.name.startswith(ROWS_WRITTEN)]
        self._require_lease(session)
        try:
            size_bytes = await self._storage.run_slow(locations.size_bytes, session.uuid, write.directory)
        except FileNotFoundError:
            await self._records.read(session)  # raises an error if the session, and thus its location, has ended
            raise
        written = WrittenDirectory(
            session.uuid,
            write.directory,
            table.name,
            decode_schema(write.schema) if write.schema else StructType(),
            table.storage_format,
            storage_options(table),
        )
        rows = await written_rows(self._storage, execution.backend, result, written)
        if check_size is not None:
            await check_size(
                await self._records.change(session, lambda record: reserve(record, table, write, size_bytes=size_bytes))
            )
            self._require_lease(session)
        await self._publish_rows(execution, table, write, Written(rows, size_bytes))

    async def _publish_rows(
        self, execution: Execution, table: TemporaryTable, write: PendingWrite, written: Written
    ) -> None:
        """Publish the rows of a write. If it replaces partitions, find out which ones and how many rows they have."""
        session = execution.session
        overwrites = write.kind is WriteKind.PARTITION_OVERWRITING
        partitions = write.partitions
        if overwrites and not partitions:
            partitions = await self._written_partitions(execution, table, write)
        while True:
            current = same_table(await self._records.read(session), table)
            hidden = 0
            if partitions and current is not None:
                schema = decode_schema(write.schema)
                shown = await self.views.contents(execution, current, schema)
                replaced = in_partitions(shown, schema, partitions, negated=False)
                hidden = await execution.backend.read_count(build_count(replaced))
            result = replace(written, partitions=partitions, hidden_rows=hidden)
            try:
                await self._records.change(session, _publication(table, write, result, current if partitions else None))
            except TableChangedError:
                continue
            return

    async def _written_partitions(
        self, execution: Execution, table: TemporaryTable, write: PendingWrite
    ) -> tuple[str, ...]:
        """Return the partitions that contain the rows of a write."""
        only = replace(table, parts=(write.directory,), replacements=())
        rows = await self.views.contents(execution, only, decode_schema(write.schema))
        files = await execution.backend.list_input_files(rows)
        return partitions_of_files(files, write.directory, len(table.partition_columns))

    async def _complete(self, execution: Execution, table: TemporaryTable, change: PendingChange) -> Answer | None:
        """Update the view of a table, and remove a published change from the record.

        Several replicas can complete the same change, even at the same time. A replica that changed the view always
        checks afterwards that the view matches the record, even if another replica has completed the change by then.

        Returns:
            The answer of the statement. None if another statement dropped the table.

        Raises:
            GatewayError: If another replica undid the change, or the backend or the storage fails.
        """
        session = execution.session
        is_view_changed = False
        async with session.lock:
            while True:
                record = await self._records.read(session)
                current = same_table(record, table)
                own = None if current is None else pending_change(current, change)
                if own is None and not is_view_changed:
                    return _find_outcome(record, table, change)
                self._require_lease(session)
                await self.views.synchronise(execution, record, table, own or change)
                is_view_changed = True
                try:
                    record = await self._records.change(session, _completion(table, current, own))
                except TableChangedError:
                    continue
                if current is not None and own is not None:
                    unused = [each for each in current.directories if each not in record.directories]
                    if isinstance(own, PendingWrite) and own.kind is WriteKind.MERGING:
                        self.deletion.delete_later(session, current.uuid, unused)
                    else:
                        await self.deletion.delete(session, unused)
                    if isinstance(own, PendingDrop):
                        await self.deletion.delete_merged(session, current.uuid)
                return _find_outcome(record, table, change)

    async def _hand_over(self, execution: Execution, table: TemporaryTable, change: PendingChange) -> None:
        """Let another replica complete a change. If this fails, the change waits until the lease has lapsed."""
        try:
            record = await self._records.change(execution.session, lambda record: hand_over(record, table, change))
        except GatewayError as error:
            log.warning("statement_not_handed_over", table=table.name, reason=str(error))
            return
        if find_pending(record, table, change) is not None:
            log.info("statement_handed_over", table=table.name)

    async def _run_or_undo(
        self,
        execution: Execution,
        table: TemporaryTable,
        change: PendingChange,
        run: Callable[[], Awaitable[Answer | None]],
    ) -> Response:
        try:
            answer = await run()
        except (StatementStartedError, ChangeTakenError):  # another statement owns the change
            raise
        except BaseException as error:
            if self._drain.hands_over(error):
                await run_to_completion(self._hand_over(execution, table, change))
                raise
            try:
                answer = await run_to_completion(self._undo.undo(execution, table, change))
            except UndoPendingError:
                raise (statement_unfinished(table.name) if isinstance(error, Exception) else error) from error
            except ChangeTakenError as taken:  # the other replica needs the result at the backend
                _raise_cancellation()
                raise (taken if isinstance(error, Exception) else error) from error
            if isinstance(change, PendingWrite):
                self._releases.start(execution.backend.operations.release(change.directory))
            if answer is None:
                failure = _client_error(error, execution, table)
                raise failure from (None if failure is error else error)
            log.info("statement_was_complete", table=table.name, reason=repr(error))
        return build_row_response({} if answer is None else dict(answer.values))


def new_directory() -> TableUuid:
    """Return a new random name for a directory in a session location."""
    return TableUuid(str(uuid.uuid4()))


def _find_outcome(record: SessionRecord, table: TemporaryTable, change: PendingChange) -> Answer | None:
    """Return the answer of a change that is no longer pending. None if another statement dropped the table.

    Raises:
        GatewayError: If another replica undid the change.
    """
    answer = find_answer(record, change.operation_id)
    is_creation = isinstance(change, PendingWrite) and change.kind is WriteKind.CREATION
    if answer is None and (is_creation or same_table(record, table) is not None):
        raise statement_lost()
    return answer


def _raise_cancellation() -> None:
    """Raise the cancellation of the current task that :func:`run_to_completion` has put off."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


def _publication(
    table: TemporaryTable, write: PendingWrite, written: Written, expected: TemporaryTable | None
) -> Callable[[SessionRecord], SessionRecord]:
    """Return the transition that publishes a write.

    The transition fails if the visible rows of the table are not the expected ones. None if any rows are right.
    """

    def transition(record: SessionRecord) -> SessionRecord:
        if expected is not None and contents_of(same_table(record, table)) != contents_of(expected):
            raise TableChangedError
        return publish(record, table, write, written)

    return transition


def _completion(
    table: TemporaryTable, shown: TemporaryTable | None, change: PendingChange | None
) -> Callable[[SessionRecord], SessionRecord]:
    """Return the transition that completes a change.

    The transition fails if the table no longer matches the contents that its view shows.
    """

    def transition(record: SessionRecord) -> SessionRecord:
        current = same_table(record, table)
        if contents_of(current) != contents_of(shown):
            raise TableChangedError
        own = None if current is None or change is None else pending_change(current, change)
        if current is None or own is None:
            return record
        return complete_with_answer(record, table, own)

    return transition


def is_lost_at_backend(error: BaseException) -> bool:
    """Return whether an error says that the backend has discarded a write, or does not know it any more."""
    return isinstance(error, BackendError) and condition_of(error.error) in _OPERATION_LOST


def _client_error(error: BaseException, execution: Execution, table: TemporaryTable) -> BaseException:
    if is_lost_at_backend(error):
        return statement_lost()  # with the error of Spark, the client would wait for the operation, or send it again
    if isinstance(error, GatewayError) or not isinstance(error, Exception):
        return error
    if isinstance(error, OSError) and not isinstance(error, TimeoutError):
        log.warning("statement_refused", table=table.name, operation=execution.operation.id, reason=str(error))
        return storage_failed(error)
    log.error("statement_broke", table=table.name, operation=execution.operation.id, exc_info=error)
    return statement_failed(table.name)
