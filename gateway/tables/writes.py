"""The way of a statement that changes a temporary table, from its claim to its end, or back to where it began.

Why it exists: such a statement is made of steps at three places: the backend writes files and knows the view, the
session's record knows what the table is made of. Its gateway, its client or its backend may die between any two of
them, and others may act meanwhile. So the record says first what is going to happen, and each step looks there again::

    begun       the record names the write, and who follows it; then the backend writes
    published   the record has the outcome as the table's: from here on it is only ever completed
    completed   the view shows what the record says, so the write is taken out; its answer is kept
    undone      instead: the record is as if the statement had not begun

Guarantees:

1. Nothing is written that the record does not name, and no directory is removed here but one that a change of the
   record has just shown to be named by nothing.
2. A statement that fails or is interrupted before it is complete is undone; one that is complete has its answer, also
   if it was interrupted at the last moment.
3. What a lost replica had begun is undone by the reaper, or taken over by the replica that is asked for it; what it had
   published is completed by the next replica that sees it.
4. A replica that was taken for dead and comes back undoes nothing that another took over.
5. Two replicas that change one table at once leave a view of what the record says.
6. The backend writes under an operation id of its own, the directory's name. So a client that asks the backend for its
   statement is told that there is none, and never takes the backend's part for the whole.
7. An undoing that fails is tried again while its replica holds the session; after that the reaper does it.

Not guaranteed: that a task of the backend does not write a file late; the reaper finds that.

Source: design, "Temporary tables" and "Session records, leases and the reaper".
"""

import asyncio
import json
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import structlog
import tenacity
from pyspark.sql.connect.proto import base_pb2
from pyspark.sql.types import StructType

from gateway.backend_session import BackendSession, ExecutionResult
from gateway.errors import SESSION_CLOSED, BackendError, GatewayError, storage_failed
from gateway.operations import Operation
from gateway.responses import Response, Values, row
from gateway.session_settings import SessionSettings
from gateway.sessions.registry import Sessions
from gateway.sessions.session import Session
from gateway.storage import Storage
from gateway.stored_tables.storage_formats import storage_format
from gateway.stored_tables.table_plans import ROWS_WRITTEN, read_relation, spark_path, view_plan
from gateway.tables.changes import completed, pending, published, same_table, taken_over, undone
from gateway.tables.records import TableRecords
from workspace.record_changes import add_answer, find_answer, find_table
from workspace.records import (
    Answer,
    PendingWrite,
    ReplicaId,
    SessionRecord,
    TableState,
    TableUuid,
    TemporaryTable,
    WriteKind,
)

_UNDO_SECONDS = 60.0
_VIEW_SECONDS = 120.0
_LONGEST_UNDO_PAUSE_SECONDS = 10.0
_NOT_LOOKED = object()
_PASSING = (GatewayError, OSError, TimeoutError)

_Result = TypeVar("_Result")

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Execution:
    """One statement that Lodge executes.

    Attributes:
        session: Whose.
        operation: Under which the client sees it.
        backend: The client's session at the backend.
        settings: The session's, when it began.
    """

    session: Session
    operation: Operation
    backend: BackendSession
    settings: SessionSettings


@dataclass(frozen=True, slots=True)
class Written:
    """What a backend wrote.

    Attributes:
        rows: The number of rows.
        size_bytes: The size of the files.
    """

    rows: int
    size_bytes: int


@dataclass(slots=True)
class _Kept:
    """The operation that the backend keeps for this replica; empty if none."""

    operation_id: str = ""


class _UndoLeftError(Exception):
    """What was begun stands in the record still, and is undone later, or completed by whoever comes first."""


class _ChangedMeanwhileError(Exception):
    """The table has other parts than those that were shown."""


class TableWrites:
    """Carries out what changes the tables of the sessions of this replica.

    Args:
        replica: This replica.
        storage: Records and locations.
        sessions: All sessions of the replica.
    """

    def __init__(self, replica: ReplicaId, storage: Storage, sessions: Sessions) -> None:
        self._replica = replica
        self._storage = storage
        self._sessions = sessions
        self._records = TableRecords(storage)
        self._background: set[asyncio.Task[None]] = set()
        self._undoing: set[asyncio.Task[None]] = set()

    async def stop(self) -> None:
        """Waits until all that was set aside is removed, or tried; what could not be undone is left to the reaper."""
        for task in self._undoing:
            task.cancel()
        await asyncio.gather(*self._background, *self._undoing, return_exceptions=True)

    def require_lease(self, session: Session) -> None:
        """Raises: GatewayError if this replica may have been taken for dead."""
        self._sessions.require_lease(session)

    @staticmethod
    def new_directory() -> TableUuid:
        return TableUuid(str(uuid.uuid4()))

    async def path_for(self, session: Session, directory: TableUuid) -> str:
        """Where a new directory is going to be; the session location is there after this."""
        return spark_path(f"{await self._sessions.create_location(session)}/{directory}")

    async def carried_out(
        self,
        execution: Execution,
        table: TemporaryTable,
        write: PendingWrite,
        *,
        begin: Callable[[SessionRecord], SessionRecord],
        plan: Callable[[str], Awaitable[base_pb2.Plan]],
        check_size: Callable[[Written], Awaitable[None]],
    ) -> Response:
        """Runs a statement that writes rows, from its beginning to its end.

        Args:
            execution: The statement.
            table: The table; of a creation, as it is to be claimed.
            write: What is to be written.
            begin: Names the write in the record.
            plan: What the backend does to write into a path.
            check_size: Raises if what was written is too much.

        Raises: GatewayError, after everything that was begun is undone.
        """

        async def work(kept: _Kept) -> Answer | None:
            self._sessions.require_lease(execution.session)
            await self._records.change(execution.session, begin)
            kept.operation_id = write.directory
            path = await self.path_for(execution.session, write.directory)
            result = await execution.backend.execute(
                await plan(path),
                operation_id=write.directory,
                on_progress=execution.operation.progress,
                keep=True,
            )
            await self._publish(execution, table, write, result, check_size)
            return await self.complete(execution, table, write)

        return await self._undone_unless_complete(execution, table, write, work)

    async def taken_over(
        self,
        execution: Execution,
        table: TemporaryTable,
        write: PendingWrite,
        check_size: Callable[[Written], Awaitable[None]],
    ) -> Response:
        """Completes a statement whose replica is lost, if its backend still has the write.

        Raises: GatewayError, after everything that was begun is undone.
        """
        mine = replace(write, replica=self._replica)

        async def work(kept: _Kept) -> Answer | None:
            self._sessions.require_lease(execution.session)
            await self._take(execution, table, write)
            kept.operation_id = write.directory
            on_progress = execution.operation.progress
            result = await execution.backend.follow(write.directory, on_progress=on_progress)
            await self._publish(execution, table, mine, result, check_size)
            return await self.complete(execution, table, mine)

        return await self._undone_unless_complete(execution, table, mine, work)

    async def complete_for(self, execution: Execution, table: TemporaryTable, write: PendingWrite) -> None:
        """Completes what a lost replica had published. Raises: GatewayError."""
        self._sessions.require_lease(execution.session)
        await self._take(execution, table, write)
        await self.complete(execution, table, write)

    async def _take(self, execution: Execution, table: TemporaryTable, write: PendingWrite) -> None:
        """Makes a write this replica's, so that the former one undoes nothing of it."""
        await self._records.change(execution.session, lambda record: taken_over(record, table, write, self._replica))
        log.info("statement_taken_over", table=table.name, replica=write.replica)

    async def dropped(
        self,
        execution: Execution,
        table: TemporaryTable,
        write: PendingWrite,
        begin: Callable[[SessionRecord], SessionRecord],
    ) -> Response:
        """Runs a statement that drops a table. Raises: GatewayError, after everything that was begun is undone."""

        async def work(_: _Kept) -> Answer | None:
            self._sessions.require_lease(execution.session)
            await self._records.change(execution.session, begin)
            return await self.complete(execution, table, write)

        return await self._undone_unless_complete(execution, table, write, work)

    async def complete(self, execution: Execution, table: TemporaryTable, write: PendingWrite) -> Answer | None:
        """Shows what the record says of a table, and takes the published write out of it.

        It may be done by several replicas, and again. Whoever touched the view looks afterwards whether it is still
        what the record says, whatever became of the write.

        Returns: The answer; None if the table was dropped meanwhile, or another undid the write.
        Raises: GatewayError.
        """
        session = execution.session
        touched = False
        async with session.lock:
            while True:
                record = await self._records.read(session)
                found = same_table(record, table)
                own = None if found is None else pending(found, write)
                if own is None and not touched:
                    return find_answer(record, write.operation_id)
                self._sessions.require_lease(session)
                await self._agree(execution, record, table, own or write)
                touched = True
                try:
                    record = await self._records.change(session, self._completion(table, found, own))
                except _ChangedMeanwhileError:
                    continue
                if own is None or found is None:
                    return find_answer(record, write.operation_id)
                gone = found.directories if own.kind is WriteKind.DROP else own.replaced
                await self.remove(session, [each for each in gone if each not in record.directories])
                return find_answer(record, write.operation_id)

    async def _agree(
        self, execution: Execution, record: SessionRecord, table: TemporaryTable, write: PendingWrite
    ) -> None:
        """Makes the view of a table what a record says; of one that is gone or being dropped, there is none."""
        found = same_table(record, table)
        try:
            async with asyncio.timeout(_VIEW_SECONDS):
                if found is not None and found.state is TableState.READY and write.schema:
                    await self._show(execution, found, write)
                elif find_table(record, table.name) is found:
                    await execution.backend.drop_temp_view(table.name)
        except TimeoutError:
            raise GatewayError(
                "LODGE_BACKEND_SILENT",
                "58000",
                f"The backend did not answer within {_VIEW_SECONDS:.0f} s when the view of [{table.name}] was changed.",
            ) from None

    def _completion(
        self, table: TemporaryTable, shown: TemporaryTable | None, write: PendingWrite | None
    ) -> Callable[[SessionRecord], SessionRecord]:
        def change(record: SessionRecord) -> SessionRecord:
            found = same_table(record, table)
            if _state_of(found) != _state_of(shown):
                raise _ChangedMeanwhileError
            own = None if found is None or write is None else pending(found, write)
            if found is None or own is None:
                return record
            answer = Answer(own.operation_id, tuple(answer_values(found, own).items()))
            return add_answer(completed(record, found, own), answer)

        return change

    async def show(self, execution: Execution, table: TemporaryTable, schema: StructType) -> None:
        """Makes the rows of all parts what the table's name means in the backend's session."""

        def find() -> Sequence[str]:
            return [
                spark_path(each) for each in self._storage.locations.table_paths(execution.session.uuid, table.parts)
            ]

        storage = storage_format(table.storage_format, table.name)
        relation = read_relation(
            await self._storage.run(find),
            storage_format=table.storage_format,
            schema=schema,
            options=storage.options(dict(table.options)),
            is_partitioned=bool(table.partition_columns),
        )
        await execution.backend.execute(view_plan(table.name, relation, replace=True))

    async def _show(self, execution: Execution, table: TemporaryTable, write: PendingWrite) -> None:
        await self.show(execution, table, StructType.fromJson(json.loads(write.schema)))

    async def _publish(
        self,
        execution: Execution,
        table: TemporaryTable,
        write: PendingWrite,
        result: ExecutionResult,
        check_size: Callable[[Written], Awaitable[None]],
    ) -> None:
        execution.operation.server_side_session_id = result.server_side_session_id
        session = execution.session
        self._sessions.require_lease(session)
        try:
            size_bytes = await self._storage.run_slow(self._storage.locations.size_bytes, session.uuid, write.directory)
        except FileNotFoundError:
            await self._records.read(session)  # says so if the session was ended meanwhile, and its files with it
            raise
        written = Written(result.observed.get(ROWS_WRITTEN, 0), size_bytes)
        await check_size(written)
        self._sessions.require_lease(session)
        await self._records.change(
            session, lambda record: published(record, table, write, rows=written.rows, size_bytes=written.size_bytes)
        )

    async def _undone_unless_complete(
        self,
        execution: Execution,
        table: TemporaryTable,
        write: PendingWrite,
        work: "Callable[[_Kept], Awaitable[Answer | None]]",
    ) -> Response:
        kept = _Kept()
        try:
            answer = await work(kept)
        except BaseException as error:  # noqa: BLE001 - whatever it is, what was begun is undone
            try:
                answer = await to_its_end(self._undo(execution, table, write))
            except _UndoLeftError:
                raise (_unfinished(table) if isinstance(error, Exception) else error) from error
            if answer is None:
                failure = _for_client(error, execution, table)
                raise failure from (None if failure is error else error)
            log.info("statement_was_complete", table=table.name, reason=repr(error))
        finally:
            if kept.operation_id:
                self._in_background(execution.backend.release(kept.operation_id), self._background)
        return row({} if answer is None else dict(answer.values))

    @staticmethod
    def _in_background(work: Coroutine[Any, Any, None], tasks: set[asyncio.Task[None]]) -> None:
        task = asyncio.create_task(work)
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    async def _undo(self, execution: Execution, table: TemporaryTable, write: PendingWrite) -> Answer | None:
        """Puts everything back; what fails is tried again while this replica holds the session.

        Returns: The answer, if the statement was complete after all.
        Raises: _UndoLeftError if it is left for later.
        """
        try:
            return await self._undo_once(execution, table, write)
        except _PASSING as error:
            log.warning("statement_undo_left", table=table.name, reason=str(error))
            if isinstance(error, GatewayError) and error.error_class == SESSION_CLOSED:
                return None  # all of it went with the session
            self._in_background(self._undo_later(execution, table, write), self._undoing)
            raise _UndoLeftError from error

    async def _undo_later(self, execution: Execution, table: TemporaryTable, write: PendingWrite) -> None:
        session = execution.session

        def is_worth_it(error: BaseException) -> bool:
            return isinstance(error, _PASSING) and self._sessions.find(session.key) is session

        attempts = tenacity.AsyncRetrying(
            retry=tenacity.retry_if_exception(is_worth_it),
            wait=tenacity.wait_random_exponential(multiplier=0.5, max=_LONGEST_UNDO_PAUSE_SECONDS),
        )
        try:
            await attempts(self._undo_once, execution, table, write)
            log.info("statement_undone", table=table.name)
        except _PASSING as error:
            log.info("statement_undo_given_up", table=table.name, reason=str(error))

    async def _undo_once(self, execution: Execution, table: TemporaryTable, write: PendingWrite) -> Answer | None:
        """Raises: GatewayError, OSError, TimeoutError; what was begun then stands in the record as before."""
        session = execution.session
        before: TemporaryTable | None = None

        def change(record: SessionRecord) -> SessionRecord:
            nonlocal before
            before = same_table(record, table)
            return undone(record, table, write)

        async with asyncio.timeout(_UNDO_SECONDS):
            record = await self._records.change(session, change)
            answer = find_answer(record, execution.operation.id)
            if answer is not None:
                return answer
            if before is not None and pending(before, write) is not None:
                await self._show_undone(execution, before, write)
        if write.kind is not WriteKind.DROP and write.directory not in record.directories:
            await self.remove(session, [write.directory])
        return None

    async def _show_undone(self, execution: Execution, before: TemporaryTable, write: PendingWrite) -> None:
        """The view, if it may show what is undone. That the backend cannot does not keep files from being removed."""
        own = pending(before, write)
        if own is None or not own.is_published:
            return
        shown: object = _NOT_LOOKED
        async with execution.session.lock:
            while True:  # others may change the table while its view is made
                now = await self._records.read(execution.session)
                state = _state_of(same_table(now, before))
                if state == shown:
                    return
                try:
                    await self._agree(execution, now, before, own)
                except GatewayError as error:
                    log.warning("view_left", table=before.name, reason=str(error))
                    return
                shown = state

    async def remove(self, session: Session, directories: Iterable[TableUuid]) -> None:
        """Sets directories aside, which are then removed in the background; what is left, the reaper finds."""
        names = list(directories)
        locations = self._storage.locations

        def move_to_trash() -> None:
            for name in names:
                locations.remove_table(session.uuid, name)

        def purge() -> None:
            for entry in locations.trash_of(session.uuid):
                if any(name in entry for name in names):
                    locations.purge(entry)

        async def purge_later() -> None:
            try:
                await self._storage.run_slow(purge)
            except (OSError, GatewayError) as error:
                log.warning("temporary_table_files_left", directories=names, reason=str(error))

        if not names:
            return
        try:
            await self._storage.run(move_to_trash)
        except (OSError, GatewayError) as error:
            log.warning("temporary_table_files_left", directories=names, reason=str(error))
            return
        self._in_background(purge_later(), self._background)


def _state_of(table: TemporaryTable | None) -> object:
    return None if table is None else (table.state, table.parts)


async def to_its_end(work: Coroutine[Any, Any, _Result]) -> _Result:
    """What must not be left half done is waited for, also if the waiting is cancelled."""
    task = asyncio.ensure_future(work)
    while not task.done():
        with suppress(asyncio.CancelledError):
            await asyncio.wait([task])
    return task.result()


def answer_values(table: TemporaryTable, write: PendingWrite) -> Values:
    """What a statement is answered (seed 001, 4.2 and 4.3); as at Spark, an insertion has no answer."""
    if write.kind is WriteKind.CREATION:
        return {"Fragment": "0_0", "Number of records written": write.rows}
    if write.kind is WriteKind.DROP:
        return {"ok": True, "summary": f"Temporary table [{table.name}] was dropped."}
    return {}


def _for_client(error: BaseException, execution: Execution, table: TemporaryTable) -> BaseException:
    if isinstance(error, BackendError) and "OPERATION_NOT_FOUND" in str(error.error.details()):
        return statement_lost()  # else the client would send its statement again
    if isinstance(error, GatewayError) or not isinstance(error, Exception):
        return error
    if isinstance(error, OSError) and not isinstance(error, TimeoutError):
        log.warning("statement_refused", table=table.name, operation=execution.operation.id, reason=str(error))
        return storage_failed(error)
    log.error("statement_broke", table=table.name, operation=execution.operation.id, exc_info=error)
    return GatewayError(
        "LODGE_STATEMENT_FAILED",
        "58000",
        f"The statement about [{table.name}] failed; the gateway's log has the reason.",
    )


def _unfinished(table: TemporaryTable) -> GatewayError:
    return GatewayError(
        "LODGE_STATEMENT_UNFINISHED",
        "58000",
        f"The statement about [{table.name}] was broken off, and what it had begun could not be undone yet. Lodge goes "
        "on with that by itself: look at the table before you run the statement again.",
    )


def statement_lost() -> GatewayError:
    return GatewayError(
        "LODGE_STATEMENT_LOST",
        "58000",
        "The gateway that ran the statement was lost before it was done, and nothing of it is left. Run it again.",
    )
