"""Undoes statements that change a temporary table.

An undo first updates the view, then changes the session record, and then deletes the files that the session record no
longer refers to. If it is interrupted after the first step, the change is still in the record. The replica
that undoes or completes the change then updates the view again.

Guarantees:

1. A replica that was considered lost does not undo a statement that another replica has taken over.
2. A failed undo is retried for as long as the replica serves the session. After that, another process undoes or
   completes the statement.
3. If the first undo fails, the client checks the table. A retry completes a change that the table shows, so that what
   the client saw stays. It undoes every other change.
"""

import asyncio
from collections.abc import Awaitable, Callable

import structlog
import tenacity

from gateway.blocking_work.storage import Storage
from gateway.errors import SESSION_CLOSED, GatewayError
from gateway.sessions.registry import Sessions
from gateway.tables.background import BackgroundTasks
from gateway.tables.changes import find_pending, named, undo
from gateway.tables.deletion import DirectoryDeletion
from gateway.tables.records import TableRecords
from gateway.tables.statement_context import Execution
from gateway.tables.table_errors import ChangeTakenError
from gateway.tables.view_sync import ViewSync
from workspace.record_changes import find_answer
from workspace.records import Answer, PendingChange, PendingWrite, SessionRecord, TemporaryTable

_UNDO_SECONDS = 60.0
_MAX_RETRY_PAUSE_SECONDS = 10.0
TRANSIENT_ERRORS = (GatewayError, OSError, TimeoutError)

Complete = Callable[[Execution, TemporaryTable, PendingChange], Awaitable[Answer | None]]

log = structlog.get_logger(__name__)


class UndoPendingError(Exception):
    """A failed undo. The session record still contains the change.

    The change is undone or completed later.
    """


class Undo:
    """Undoes changes of temporary tables.

    Args:
        storage: The storage of session records.
        sessions: The sessions that this replica serves.
        views: Updates the views of temporary tables.
        deletion: Deletes directories.
        complete: Completes a published change of this replica, and returns its answer.
    """

    def __init__(
        self, storage: Storage, sessions: Sessions, views: ViewSync, deletion: DirectoryDeletion, complete: Complete
    ) -> None:
        self._records = TableRecords(storage)
        self._sessions = sessions
        self._views = views
        self._deletion = deletion
        self._complete = complete
        self._retries = BackgroundTasks()

    async def stop(self) -> None:
        """Stop all retries. The reaper undoes the remaining statements."""
        self._retries.cancel()
        await self._retries.wait()

    async def undo(self, execution: Execution, table: TemporaryTable, change: PendingChange) -> Answer | None:
        """Undo a change. If the undo fails, complete or undo the change in the background.

        Returns:
            The answer of the statement if the statement was already complete. None if the change was undone.

        Raises:
            UndoPendingError: If the undo failed and is being retried.
            ChangeTakenError: If another replica took over the change, and may complete it.
        """
        try:
            return await self._undo_once(execution, table, change)
        except TRANSIENT_ERRORS as error:
            log.warning("statement_undo_left", table=table.name, reason=str(error))
            if isinstance(error, GatewayError) and error.condition == SESSION_CLOSED:
                return None  # the table was deleted with its session
            self._retries.start(self._retry(execution, table, change))
            raise UndoPendingError from error

    async def _retry(self, execution: Execution, table: TemporaryTable, change: PendingChange) -> None:
        session = execution.session

        def is_retried(error: BaseException) -> bool:
            return isinstance(error, TRANSIENT_ERRORS) and self._sessions.find(session.key) is session

        attempts = tenacity.AsyncRetrying(
            retry=tenacity.retry_if_exception(is_retried),
            wait=tenacity.wait_random_exponential(multiplier=0.5, max=_MAX_RETRY_PAUSE_SECONDS),
        )
        try:
            answer: Answer | None = await attempts(self._settle, execution, table, change)
            if answer is None:
                log.info("statement_undone", table=table.name)
            else:
                log.info("statement_was_complete", table=table.name, reason="Its result was visible.")
        except (ChangeTakenError, *TRANSIENT_ERRORS) as error:
            log.info("statement_undo_given_up", table=table.name, reason=str(error))

    async def _settle(self, execution: Execution, table: TemporaryTable, change: PendingChange) -> Answer | None:
        """Complete the change if the view shows it. Otherwise, undo it."""
        record = await self._records.read(execution.session)
        own = find_pending(record, table, change)
        is_own = own is not None and own.is_published and own.replica == change.replica
        if is_own and await self._views.shows(execution, named(record, table), change):
            return await self._complete(execution, table, change)
        return await self._undo_once(execution, table, change)

    async def _undo_once(self, execution: Execution, table: TemporaryTable, change: PendingChange) -> Answer | None:
        session = execution.session

        own: PendingChange | None = None

        def transition(record: SessionRecord) -> SessionRecord:
            nonlocal own
            own = find_pending(record, table, change) or own  # the statement that creates the table may add its schema
            return undo(record, table, change)

        async with asyncio.timeout(_UNDO_SECONDS):
            record = await self._records.read(session)
            own = find_pending(record, table, change)
            if own is None or not own.is_published or transition(record) is record:
                record = await self._records.change(session, transition)
            else:
                async with session.lock:
                    shown = await self._views.show(execution, table, own, transition)
                    record = await self._records.change(session, transition)
                    await self._views.show(execution, table, own, shown=shown)
            answer = find_answer(record, change.operation_id)
            if answer is not None:
                return answer
            if find_pending(record, table, change) is not None:
                raise ChangeTakenError("Another replica took over the statement.")
        if isinstance(change, PendingWrite):  # another statement may have replaced the rows that it was to replace
            unused = [each for each in change.directories if each not in record.directories]
            await self._deletion.delete(session, unused)
        return None
