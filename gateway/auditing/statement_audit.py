"""Observes each statement until it ends, and records its outcome in the audit log.

A client can lose the stream of an operation and reattach any number of times. The statement has ended when its last
response has passed, when it has failed, or when the client has discarded the operation.

Guarantees:

1. There is one event for each statement that begins at this replica: ``statement_finished``, or ``statement_left`` if
   its end is not visible here. Reattaching does not add an event. Statements that a limit refuses are counted in
   ``statement_refused``.
2. A client cannot hide a statement by using the operation id of another statement again.
3. The replica observes a limited number of statements that no stream follows. While many events wait to be written,
   it does not read what statements contain.

Not guaranteed: If a client reattaches at another replica, that replica does not know what the statement contains, and
its event has the kind ``reattached``. If a process is killed, the events of its running statements are missing.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from grpc import StatusCode, aio
from pyspark.sql.connect.proto import base_pb2

from gateway.auditing.audit import SUCCEEDED, Audit, Caller, Outcome, Statement
from gateway.auditing.response_counts import read_counts
from gateway.auditing.statement_contents import MAX_REQUEST_BYTES, describe_kind, read_contents
from gateway.errors import LIMIT_EXCEEDED, OPERATION_NOT_FOUND, GatewayError
from gateway.messages.error_status import condition_of
from gateway.messages.requests import Request, SessionKey
from gateway.operations.operations import Operation

REATTACHED = "reattached"
"""The kind of a statement that was sent to another replica."""

_MAX_DETACHED = 10_000
_MAX_REMEMBERED = 10_000
_MAX_WAITING_REQUESTS = 1_000  # of at most 64 KiB each
_CANCELED = "OPERATION_CANCELED"
_ALREADY_EXISTS = "INVALID_HANDLE.OPERATION_ALREADY_EXISTS"
_RETRIED_CODES = frozenset({StatusCode.UNAVAILABLE, StatusCode.CANCELLED, StatusCode.DEADLINE_EXCEEDED})
_KEEPS_OPERATION = (OPERATION_NOT_FOUND, "INVALID_HANDLE.SESSION_NOT_FOUND")
"""Conditions after which a client sends the statement again under the same operation id."""

OperationKey = tuple[SessionKey, str]


class ObservedStatement:
    """A statement whose end has not been recorded yet.

    Args:
        statement: The statement.
        key: The session and the operation id.
        read_reattachable: A function that returns whether the client can reattach to the operation. It is called at
            most once, and only if the first stream of responses ends early.

    Attributes:
        fingerprint: A hash of the request. None if the request is too large to hash.
        is_repeated: Whether the client has sent the same request again.
        has_ended: Whether the end has been recorded.
        streams: The number of streams that follow the operation.
        timer: Ends the observation if no stream follows the operation.
    """

    def __init__(self, statement: Statement, key: OperationKey, read_reattachable: Callable[[], bool]) -> None:
        self.statement = statement
        self.key = key
        self._read_reattachable: Callable[[], bool] | None = read_reattachable
        self._is_reattachable = False
        self.fingerprint: int | None = None
        self.is_repeated = False
        self.has_ended = False
        self.streams = 0
        self.timer: asyncio.TimerHandle | None = None

    @property
    def is_reattachable(self) -> bool:
        """Whether the client can reattach to the operation."""
        if self._read_reattachable is not None:
            read, self._read_reattachable = self._read_reattachable, None  # the function refers to the whole request
            self._is_reattachable = bool(self.key[1]) and read()
        return self._is_reattachable


class StatementAudit:
    """The statements that this replica observes.

    Args:
        audit: The audit events.
        detached_timeout_seconds: How long a statement is observed while no stream follows it.
        log_query_text: Whether events contain the text of SQL statements.
    """

    def __init__(self, audit: Audit, *, detached_timeout_seconds: float, log_query_text: bool) -> None:
        self._audit = audit
        self._detached_timeout_seconds = detached_timeout_seconds
        self._log_query_text = log_query_text
        self._observed: OrderedDict[OperationKey, ObservedStatement] = OrderedDict()
        self._ended: OrderedDict[OperationKey, None] = OrderedDict()

    def begin(self, request: Request) -> ObservedStatement | None:
        """Begin to observe the statement of an ``ExecutePlan`` request.

        Returns:
            The statement. If the client repeats a request, the statement of the first request. None if there is no
            audit log.
        """
        if not self._audit.log.is_enabled:
            return None
        data, key = request.data, (request.key, request.operation_id)
        is_small = len(data) <= MAX_REQUEST_BYTES
        fingerprint = hash(data) if is_small else None
        known = self._observed.get(key)
        if known is not None:
            if is_small and known.fingerprint == fingerprint:
                known.is_repeated = True
                return known
            self._leave(known, "the client used the operation id again")
        statement = Statement(self._audit.caller(), "unknown")
        observed = ObservedStatement(statement, key, lambda: _is_reattachable(request))
        observed.fingerprint = fingerprint
        if is_small and self._audit.log.waiting < _MAX_WAITING_REQUESTS:
            self._audit.log.run(lambda: self._read(statement, data))
        if request.operation_id:
            self._observed[key] = observed
            self._ended.pop(key, None)
        return observed

    def refuse(self, caller: Caller, error: GatewayError | aio.AioRpcError) -> None:
        """Record a statement that failed before it began, if the reason is a limit."""
        if isinstance(error, GatewayError) and error.condition == LIMIT_EXCEEDED:
            limit = error.parameters.get("setting", "")
            self._audit.statement_refused(caller, condition=error.condition, limit=limit)

    def describe(self, observed: ObservedStatement | None, plan: base_pb2.Plan) -> None:
        """Record the kind of the plan of a statement."""
        if observed is not None:
            observed.statement.kind = describe_kind(plan)

    def finish_with(self, operation: Operation, observed: ObservedStatement | None) -> None:
        """Record the outcome of a Lodge statement when its operation ends.

        If another replica executes the statement, that replica records its outcome.
        """
        if observed is None or observed.statement.is_own:
            return
        statement = observed.statement
        statement.is_own = True

        def finish() -> None:
            if operation.executes:
                statement.rows, statement.response_bytes = operation.size
                self.finish(observed, _outcome(operation.condition) if operation.condition else SUCCEEDED)
            else:
                self._end(observed)

        operation.on_end(finish)

    def reattach(self, request: Request) -> ObservedStatement | None:
        """Return the statement to which a client reattaches.

        Returns:
            The statement. None if its end was recorded, or there is no audit log.
        """
        key = (request.key, request.operation_id)
        if key in self._ended or not self._audit.log.is_enabled:
            return None
        observed = self._observed.get(key)
        if observed is None:
            statement = Statement(self._audit.caller(), REATTACHED)
            observed = self._observed[key] = ObservedStatement(statement, key, lambda: True)
        return observed

    @contextmanager
    def follow(self, observed: ObservedStatement | None) -> Iterator[Callable[[bytes], None]]:
        """Observe a stream of responses for the duration of the block.

        If the block raises an error, the statement has failed, unless the client can reattach.

        Args:
            observed: The statement. None if nothing is recorded.

        Yields:
            A function to call with each response.
        """
        if observed is None:
            yield _ignore
            return
        self._attach(observed)
        try:
            yield lambda response: self._count(observed, response)
        except GatewayError as error:
            self._fail(observed, error.condition, None)
            raise
        except aio.AioRpcError as error:
            self._fail(observed, condition_of(error), error.code())
            raise
        except asyncio.CancelledError:
            if not (observed.has_ended or observed.is_reattachable):
                self.finish(observed, Outcome("canceled", _CANCELED))
            raise
        else:
            if not (observed.has_ended or observed.is_reattachable):
                self.finish(observed, SUCCEEDED)
        finally:
            self._detach(observed)

    def finish(self, observed: ObservedStatement, outcome: Outcome) -> None:
        """Record the outcome of a statement, unless its end has been recorded."""
        if self._end(observed):
            self._audit.statement_finished(observed.statement, outcome)

    def release(self, request: Request) -> None:
        """Record that a client has discarded an operation. The backend interrupts the operation if it is running."""
        observed = self._observed.get((request.key, request.operation_id))
        if observed is not None and not observed.statement.is_own:
            self.finish(observed, Outcome("canceled", _CANCELED))

    def close(self) -> None:
        """Record the statements whose end this replica will not see, because it stops."""
        for observed in list(self._observed.values()):
            self._leave(observed, "the gateway stopped")

    def _read(self, statement: Statement, request: bytes) -> None:
        statement.contents = read_contents(request, with_text=self._log_query_text)

    def _count(self, observed: ObservedStatement, response: bytes) -> None:
        statement, counts = observed.statement, read_counts(response)
        statement.response_bytes += len(response)
        if counts.rows_until is None:
            statement.rows += counts.rows
        else:  # after a client has reattached, it can receive rows again
            statement.rows = max(statement.rows, counts.rows_until)
        if counts.is_complete:
            self.finish(observed, SUCCEEDED)

    def _fail(self, observed: ObservedStatement, condition: str, code: StatusCode | None) -> None:
        """Record the failure of a statement, unless the operation continues or the client sends it again."""
        if observed.is_repeated and condition == _ALREADY_EXISTS:
            return
        if observed.is_reattachable and not condition and code in _RETRIED_CODES:
            return
        if observed.is_reattachable and condition in _KEEPS_OPERATION:
            if observed.statement.kind == REATTACHED:
                self._forget(observed)  # there is no such operation
            return
        self.finish(observed, _outcome(condition or (code.name if code else "")))

    def _attach(self, observed: ObservedStatement) -> None:
        observed.streams += 1
        if observed.timer is not None:
            observed.timer.cancel()
            observed.timer = None

    def _detach(self, observed: ObservedStatement) -> None:
        observed.streams -= 1
        if observed.streams or observed.has_ended or observed.statement.is_own:
            return
        if not observed.is_reattachable:  # the stream ended with an unexpected error
            self.finish(observed, Outcome("failed"))
            return
        loop = asyncio.get_running_loop()
        reason = "no client followed the operation"
        observed.timer = loop.call_later(self._detached_timeout_seconds, self._leave, observed, reason)
        self._observed.move_to_end(observed.key)
        if len(self._observed) > _MAX_DETACHED:
            oldest = next((each for each in self._observed.values() if not each.streams), observed)
            self._leave(oldest, "too many operations were not followed")

    def _leave(self, observed: ObservedStatement, reason: str) -> None:
        if self._end(observed):
            self._audit.statement_left(observed.statement, reason=reason)

    def _end(self, observed: ObservedStatement) -> bool:
        """Stop observing a statement.

        Returns:
            False if its end was recorded before.
        """
        if observed.has_ended:
            return False
        if self._forget(observed):
            self._ended[observed.key] = None
            if len(self._ended) > _MAX_REMEMBERED:
                self._ended.popitem(last=False)
        return True

    def _forget(self, observed: ObservedStatement) -> bool:
        """Stop observing a statement, and record nothing.

        Returns:
            Whether the operation id referred to this statement.
        """
        observed.has_ended = True
        if observed.timer is not None:
            observed.timer.cancel()
        is_current = self._observed.get(observed.key) is observed
        if is_current:
            del self._observed[observed.key]
        return is_current


def _is_reattachable(request: Request) -> bool:
    return request.read_statement().is_reattachable


def _outcome(condition: str) -> Outcome:
    return Outcome("canceled" if condition.startswith(_CANCELED) else "failed", condition)


def _ignore(_: bytes) -> None:
    pass
