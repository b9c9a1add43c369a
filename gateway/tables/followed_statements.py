"""Statements that other replicas began: following their outcome, and completing those of lost replicas."""

import asyncio
import time
from collections.abc import Mapping
from contextlib import suppress

import structlog
from pyspark.sql.connect.proto import base_pb2

from gateway.blocking_work.current_work import CurrentWork, NotedRequest, digest_of
from gateway.blocking_work.storage import Storage
from gateway.errors import LEASE_LOST, SESSION_CLOSED, GatewayError
from gateway.messages.error_status import Metadata
from gateway.messages.statement_request import StatementRequest
from gateway.operations.drain import Drain
from gateway.operations.operations import Operation, Operations, Runner
from gateway.operations.responses import Response, build_row_response
from gateway.scans.discovery_progress import is_of_lodge_statement
from gateway.scans.lost_discoveries import discovery_lost
from gateway.sessions.adoption import find_abandoned
from gateway.sessions.registry import Sessions
from gateway.sessions.session import Session
from gateway.sessions.suspects import check_request
from gateway.tables.changes import is_lost, is_undone, is_unknown, mark_lost
from gateway.tables.execution import StatementExecutor
from gateway.tables.permanent_tables import PermanentTables
from gateway.tables.records import TableRecords
from gateway.tables.statement_context import Execution, execution_of
from gateway.tables.table_errors import ChangeTakenError, StatementStartedError, permanent_table_unknown, statement_lost
from gateway.tables.temporary_tables import TemporaryTables
from gateway.tables.undo import TRANSIENT_ERRORS
from workspace.identifiers import ReplicaId
from workspace.leases import LeaseObserver
from workspace.record_changes import find_answer, find_change, is_known
from workspace.record_store import StoredRecord
from workspace.records import NO_REPLICA, PendingChange, PendingWrite, TemporaryTable

_MAX_POLL_SECONDS = 1.0
_FIRST_RETRY_SECONDS = 1.0
_MAX_RETRY_SECONDS = 60.0
_COMPLETION = "completion"
_SUSPECTED = "A gateway was lost while it completed the statement. The end of the session removes it."

log = structlog.get_logger(__name__)


class FollowedStatements:
    """Follows statements that other replicas execute, and completes those of lost replicas.

    Args:
        replica: The name of this replica.
        storage: The session records and leases.
        sessions: The sessions that this replica serves.
        operations: The operations of this replica.
        tables: Completes the statements about temporary tables.
        permanent: Ends the creations of permanent tables.
        executor: Completes changes that are published.
        lease_seconds: After this time without a renewal of its lease, another replica is lost.
        drain: What this replica hands over when it stops.
        work: The memory in which this replica notes on which requests it works.
    """

    def __init__(
        self,
        *,
        replica: ReplicaId,
        storage: Storage,
        sessions: Sessions,
        operations: Operations,
        tables: TemporaryTables,
        permanent: PermanentTables,
        executor: StatementExecutor,
        lease_seconds: float,
        drain: Drain,
        work: CurrentWork,
    ) -> None:
        self._replica = replica
        self._storage = storage
        self._sessions = sessions
        self._operations = operations
        self._tables = tables
        self._permanent = permanent
        self._executor = executor
        self._lease_seconds = lease_seconds
        self._drain = drain
        self._work = work
        self._records = TableRecords(storage)

    async def reattach(
        self, session: Session, request: base_pb2.ReattachExecuteRequest, metadata: Metadata
    ) -> Operation | None:
        """Start an operation that follows a statement of another replica.

        The operation waits for the answer of a statement that another replica started. If that replica is lost, the
        operation completes the statement. A statement whose stream was lost during discovery cannot begin afterwards.

        Args:
            session: The session of the client.
            request: The request of the client to reattach to the statement.
            metadata: The metadata of the request.

        Returns:
            The operation. None if the statement is not a Lodge statement.

        Raises:
            GatewayError: If the statement was lost during discovery, the session has ended, or the storage fails.
        """
        record = await self._records.read(session)
        if running := self._operations.find(session.key, request.operation_id):  # started while the record was read
            return running
        if not is_known(record, request.operation_id):
            if not is_of_lodge_statement(request.last_response_id):
                return None
            await self._lose(session, request.operation_id)
            if running := self._operations.find(session.key, request.operation_id):  # started concurrently
                return running
        statement = StatementRequest(
            request.session_id, request.user_context, request.operation_id, request.client_type, is_reattachable=True
        )
        execution = execution_of(session, statement, metadata)
        self._operations.start(execution.operation, lambda: self.follow(execution))
        return execution.operation

    async def _lose(self, session: Session, operation_id: str) -> None:
        """Prevent a statement from beginning, unless it has already begun."""
        await self._sessions.joins.ensure_joined(session)
        with suppress(StatementStartedError):
            await self._records.change(session, mark_lost(operation_id))

    async def follow(self, execution: Execution) -> Response:
        """Wait for a statement that another replica started, and return its answer.

        If the other replica is lost, complete the statement. The completion counts as a request of the session, so the
        session is not idle. The wait does not count.

        Raises:
            GatewayError: If the statement failed or was undone.
        """
        lease_seconds = self._lease_seconds
        observer = LeaseObserver(lease_seconds)
        execution.operation.executes = False
        while True:
            self._drain.require_not_stopping()
            record = await self._records.read(execution.session)
            execution.operation.is_relation |= execution.operation.id in record.relations
            answer = find_answer(record, execution.operation.id)
            if answer is not None:
                if is_lost(answer):
                    execution.operation.executes = True  # no other gateway records how it ended
                    raise discovery_lost()
                if is_unknown(answer):
                    raise permanent_table_unknown()
                if is_undone(answer):
                    raise statement_lost()
                return build_row_response(dict(answer.values))
            found = find_change(record, execution.operation.id)
            if found is None:
                raise statement_lost()
            table, change = found
            if await self._is_lost(change.replica, observer) and await self._may_take_over(execution.session):
                execution.operation.executes = True
                try:
                    with execution.session.track_request():
                        response = await self._finish(execution, table, change)
                    if response:
                        return response
                    continue
                except ChangeTakenError:  # follow the replica that was faster
                    execution.operation.executes = False
            await asyncio.sleep(min(lease_seconds / 5, _MAX_POLL_SECONDS))

    def complete_abandoned(self, session: Session, stored: StoredRecord) -> None:
        """Complete the changes of lost replicas in the background.

        The client may be gone, or may not reconnect soon. If the client reattaches to a statement, it follows the
        operation that this method starts. As for each operation that no client follows, the operation of a statement
        that still writes rows is interrupted after the detached timeout.

        Args:
            session: A session that this replica serves.
            stored: The record of the session, which may be outdated.
        """
        for change in find_abandoned(stored, self._sessions.peers.lost | {NO_REPLICA}):
            if self._drain.is_handing_over or self._operations.is_used(session.key, change.operation_id):
                continue
            execution = execution_of(session, StatementRequest.of_principal(*session.key, change.operation_id), ())
            digest = digest_of(_COMPLETION, change.operation_id.encode())
            try:
                check_request(session.suspects, _COMPLETION, change.operation_id, digest)
            except GatewayError:
                log.warning("statement_not_completed", operation=change.operation_id, reason=_SUSPECTED)
                continue
            request = NotedRequest(session.record_name, digest, change.operation_id)
            log.info("statement_completion_started", operation=change.operation_id, replica=change.replica)
            self._operations.start(execution.operation, self._completion(execution, request))

    def _completion(self, execution: Execution, request: NotedRequest) -> Runner:
        """Return the function that completes an abandoned statement, and notes that this gateway works on it."""
        return lambda: self._work.note(request, self._complete_abandoned(execution))

    async def _complete_abandoned(self, execution: Execution) -> Response:
        """Complete a change of a lost replica. Retry this while the change is published, and so cannot be undone."""
        session, operation = execution.session, execution.operation
        pause_seconds = _FIRST_RETRY_SECONDS
        with session.log_context():
            while True:
                try:
                    return await self.follow(execution)
                except TRANSIENT_ERRORS as error:
                    log.warning("statement_not_completed", operation=operation.id, reason=str(error))
                    if self._sessions.find(session.key) is not session or not await self._is_published(execution):
                        raise
                await asyncio.sleep(pause_seconds)
                pause_seconds = min(2 * pause_seconds, _MAX_RETRY_SECONDS)

    async def running_writes(self, session: Session) -> Mapping[str, str]:
        """Return the backend operation ids of the running writes.

        Returns:
            A mapping from the operation id of the client to the operation id of the backend.

        Raises:
            GatewayError: If the session has ended, or the storage fails.
        """
        record = await self._records.read(session)
        writes = (*record.writes, *(write for table in record.tables for write in table.writes))
        return {write.operation_id: write.directory for write in writes}

    async def _is_published(self, execution: Execution) -> bool:
        """Return whether the change of an operation is published, or its state cannot be read."""
        try:
            record = await self._records.read(execution.session)
        except GatewayError as error:
            return error.condition != SESSION_CLOSED
        found = find_change(record, execution.operation.id)
        return found is not None and found[1].is_published

    async def _finish(
        self, execution: Execution, table: TemporaryTable | None, change: PendingChange
    ) -> Response | None:
        """Finish a change of a lost replica, and return its answer. None if the session record contains the answer.

        Raises:
            ChangeTakenError: If another replica was faster.
            GatewayError: If the statement failed or was undone.
        """
        if isinstance(change, PendingWrite):
            if table is None:
                return await self._permanent.give_up(execution.session, change)
            if not change.is_published:
                return await self._tables.take_over(execution, table, change)
        if table is not None:
            await self._executor.complete_for(execution, table, change)
        return None

    async def _may_take_over(self, session: Session) -> bool:
        """Join the session again if the lease had lapsed, and return whether this replica may complete its statements.

        Raises:
            GatewayError: If the session has ended, or the storage fails.
        """
        try:
            await self._sessions.joins.ensure_joined(session)
        except GatewayError as error:
            if error.condition != LEASE_LOST:
                raise
            return False
        return True

    async def _is_lost(self, replica: ReplicaId, observer: LeaseObserver) -> bool:
        """Return whether the replica that executes a change is lost.

        This replica counts as lost too, because it does not run an operation for the change. So does a replica that
        handed over the change.

        The leases are listed after the record was read. A replica that was lost before may have returned and begun the
        change.
        """
        if replica in {self._replica, NO_REPLICA}:
            return True
        peers = self._sessions.peers
        if replica in peers.lost:
            await peers.observe()
            return replica in peers.lost
        leases = await self._storage.run_lease(self._storage.leases.list)
        observer.observe(leases, {replica}, time.monotonic())
        return replica in observer.lost(time.monotonic())
