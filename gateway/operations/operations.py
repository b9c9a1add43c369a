"""Lodge statements as reattachable operations.

A Spark Connect client runs every statement as a reattachable operation. If the client loses its stream, it can send
``ReattachExecute`` with the id of the last response that it received. The client releases the responses that it has
read. Spark implements this protocol for the operations that it executes. This module implements it for Lodge
statements, under the operation id that the client chose.

Guarantees:

1. An operation runs once, regardless of the streams that follow it. A second ``ExecutePlan`` request with the
   same operation id is rejected, as in Spark.
2. A client that reattaches receives all responses after the last response that it received. The result is always the
   last response.
3. An interrupt by operation id, by tag or of all operations ends the operation with the same error as in Spark, and
   undoes its effects.
4. If no stream follows an operation for the detached timeout, the operation is interrupted if it is still running, and
   is then discarded, as in Spark. If another replica also serves the session, the client may have moved there and wait
   for the operation. Then the operation continues.
5. A used operation id is rejected for as long as Spark would reject it, even after the operation was released.
6. An operation that has ended keeps only its responses or its error. The error has no traceback, so the plan and the
   intermediate data of a failed statement are freed at once. Nothing refers to an operation after its release.
7. Results that no stream follows occupy at most ``MAX_RESULT_BYTES``. Otherwise the oldest are discarded before the
   timeout, first those of the principal whose results occupy most memory.

Source: [spark-connect-server SparkConnectReattachExecuteHandler], [spark-connect-server ExecuteGrpcResponseSender],
[architecture "Gateway"].
"""

import asyncio
import copy
import time
import uuid
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any

import structlog
from pyspark.sql.connect.proto import base_pb2

from gateway.blocking_work.current_work import noted
from gateway.errors import BackendError, CanceledError, GatewayError, SparkError, final, storage_failed
from gateway.messages.requests import SessionKey
from gateway.messages.statement_request import StatementRequest
from gateway.operations.responses import convert_to_rows
from gateway.operations.tracebacks import forget_frames
from workspace.identifiers import ClientSessionId, Principal

_KEPT_PROGRESS_RESPONSES = 16
_CLOCK_SLACK_SECONDS = 0.1  # timers of the event loop may fire early
MAX_RESULT_BYTES = 64 * 1024 * 1024
"""The maximum size of the results that no stream follows and that no client has released."""

_ENTRY_BYTES = 4096  # the memory of an operation without its responses
_REMEMBERED_IDS = 10_000  # Spark: spark.connect.execute.manager.abandonedTombstonesSize

log = structlog.get_logger(__name__)

_OperationKey = tuple[SessionKey, str]
Runner = Callable[[], Awaitable[base_pb2.ExecutePlanResponse]]
"""A function that executes a statement and returns its response.

If the function is cancelled, it must undo its effects.
"""


class Operation:
    """The operation of a Lodge statement.

    Args:
        request: The statement of the client.
        server_side_session_id: The session id that the backend generated. Empty if it is not known yet.
        is_relation: Whether the statement is the root relation of a plan. Then its client expects rows.

    Attributes:
        is_finished: Whether the operation has ended, either with a result or with an error.
        executes: Whether this replica executes the statement. Otherwise, the operation waits for another replica.
        observed: The metrics that the query of the statement has observed.
    """

    def __init__(
        self, request: StatementRequest, server_side_session_id: str = "", *, is_relation: bool = False
    ) -> None:
        self.request = request
        self.id = request.operation_id
        self.session_key = SessionKey(Principal(request.user_context.user_id), ClientSessionId(request.session_id))
        self.key = (self.session_key, self.id)
        self.is_reattachable = request.is_reattachable
        self.server_side_session_id = server_side_session_id
        self.is_relation = is_relation
        self._responses: list[base_pb2.ExecutePlanResponse] = []
        self._error: GatewayError | None = None
        self._is_answered = self._has_responded = False
        self.is_finished = False
        self.executes = True
        self.observed: Sequence[base_pb2.ExecutePlanResponse.ObservedMetrics] = ()
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._interrupted = False
        self._watchers = 0
        self._unwatched_since_seconds = time.monotonic()

    @property
    def is_watched(self) -> bool:
        """Whether a stream follows the operation."""
        return self._watchers > 0

    @property
    def has_responded(self) -> bool:
        """Whether a client may have received a response, also one that it has released."""
        return self._has_responded

    @property
    def unwatched_seconds(self) -> float:
        """How long no stream has followed the operation. 0 while a stream follows it."""
        return 0.0 if self._watchers else time.monotonic() - self._unwatched_since_seconds

    def on_end(self, callback: Callable[[], object]) -> None:
        """Call a function when the operation has ended."""
        if self._task is None or self._task.done():
            callback()
        else:
            self._task.add_done_callback(lambda _: callback())

    @property
    def condition(self) -> str:
        """The condition of the error with which the operation has ended. Empty if it has not failed."""
        return "" if self._error is None else self._error.condition

    @property
    def size(self) -> tuple[int, int]:
        """The number of rows and of bytes in the responses."""
        rows = sum(response.arrow_batch.row_count for response in self._responses)
        return rows, sum(response.ByteSize() for response in self._responses)

    @contextmanager
    def watch(self) -> Iterator[None]:
        """Count a stream as following the operation for the duration of the block."""
        self._watchers += 1
        try:
            yield
        finally:
            self._watchers -= 1
            self._unwatched_since_seconds = time.monotonic()

    def start(self, run: Runner) -> asyncio.Task[None]:
        """Start executing the statement, and return the task that executes it."""
        self._task = asyncio.create_task(noted(self._run(run)))
        self._task.add_done_callback(self._finish)
        return self._task

    async def progress(self, response: base_pb2.ExecutePlanResponse) -> None:
        """Forward a progress message from the backend to the client."""
        if len(self._responses) < _KEPT_PROGRESS_RESPONSES:
            self._add(response)

    async def interrupt(self) -> bool:
        """End the operation and wait until its effects are undone.

        Returns:
            Whether the operation was running.
        """
        if self.is_finished or self._task is None:
            return False
        if not self._interrupted:  # cancelling the task a second time would stop the undo
            self._interrupted = True
            self._task.cancel()
        await asyncio.wait([self._task])
        return True

    async def ended(self) -> None:
        """Wait until the operation has ended."""
        if self._task is not None:
            await asyncio.wait([self._task])

    def release_until(self, response_id: str) -> None:
        """Discard all responses up to the given response. The client has read them."""
        self._responses = self._responses[self._after(response_id) :]

    async def responses(self, last_response_id: str = "") -> AsyncIterator[bytes]:
        """Yield all responses after the given response until the operation ends.

        Raises:
            GatewayError: If the operation failed.
        """
        seen = {last_response_id} | {r.response_id for r in self._responses[: self._after(last_response_id)]}
        while True:
            changed, unseen, finished = self._changed, self._unseen(seen), self.is_finished
            if not unseen and not finished:
                await changed.wait()
                continue
            for response in unseen:
                seen.add(response.response_id)
                yield response.SerializeToString()
            if finished:
                break
        if self._error is not None:
            raise _detach(self._error)  # a raised error keeps the traceback of its last raise

    def _unseen(self, seen: set[str]) -> Sequence[base_pb2.ExecutePlanResponse]:
        return [response for response in self._responses if response.response_id not in seen]

    def _after(self, response_id: str) -> int:
        ids = [response.response_id for response in self._responses]
        return ids.index(response_id) + 1 if response_id in ids else 0

    async def _run(self, run: Runner) -> None:
        try:
            self._end_with(await run())
        except asyncio.CancelledError as error:
            self._error = CanceledError()
            forget_frames(error)
            if not self._interrupted:
                raise
        except Exception as error:  # noqa: BLE001 - the operation logs it, and keeps an error for the client
            self._error = self._convert(error)
            forget_frames(error)

    def _end_with(self, answer: base_pb2.ExecutePlanResponse) -> None:
        answers = convert_to_rows(answer) if self.is_relation else (answer,)
        self._is_answered = True
        for each in answers:
            response = self._response()
            response.MergeFrom(each)
            if each.ListFields():
                self._add(response)
        if self.observed:
            metrics = self._response()
            metrics.observed_metrics.extend(self.observed)
            self._add(metrics)
        if self.is_reattachable:
            complete = self._response()
            complete.result_complete.SetInParent()
            self._add(complete)

    def _convert(self, error: Exception) -> GatewayError:
        """Return the error for the client, and log an error that it does not contain."""
        if isinstance(error, GatewayError):
            return _detach(final(error))
        if isinstance(error, OSError) and not isinstance(error, TimeoutError):
            log.warning("statement_refused", operation=self.id, reason=str(error))
            return storage_failed(error)
        log.exception("statement_broke", operation=self.id)
        return GatewayError(
            "LODGE_STATEMENT_FAILED",
            "58000",
            "The statement failed in the gateway. See the gateway log for the reason.",
        )

    def _finish(self, _: "asyncio.Task[None]") -> None:
        """Record the end of the task, even if it was cancelled before its first step."""
        if not self._is_answered and self._error is None:
            self._error = CanceledError()
        self.is_finished = True
        self._task = None
        self.request = StatementRequest(self.request.session_id)
        self._wake()

    def _add(self, response: base_pb2.ExecutePlanResponse) -> None:
        self._responses.append(response)
        self._has_responded = True
        self._wake()

    def _wake(self) -> None:
        """Wake up all streams that wait for a change."""
        self._changed.set()
        self._changed = asyncio.Event()

    def _response(self) -> base_pb2.ExecutePlanResponse:
        return base_pb2.ExecutePlanResponse(
            session_id=self.request.session_id,
            server_side_session_id=self.server_side_session_id,
            operation_id=self.id,
            response_id=str(uuid.uuid4()),
        )


class Operations:
    """The operations of Lodge statements at this replica.

    Args:
        detached_timeout_seconds: How long an operation and its responses are kept while no stream follows the
            operation.
        may_be_followed_elsewhere: A function that returns whether a client may follow an operation at another
            replica. Such an operation continues. By default, no client does.
    """

    def __init__(
        self,
        detached_timeout_seconds: float,
        may_be_followed_elsewhere: Callable[[Operation], Awaitable[bool]] | None = None,
    ) -> None:
        self._detached_timeout_seconds = detached_timeout_seconds
        self._may_be_followed_elsewhere = may_be_followed_elsewhere
        self._by_key: dict[_OperationKey, Operation] = {}
        self._used: OrderedDict[_OperationKey, None] = OrderedDict()
        self._timers: dict[_OperationKey, asyncio.TimerHandle] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._ended: dict[Principal, OrderedDict[_OperationKey, int]] = {}
        self._bytes_by_principal: Counter[Principal] = Counter()

    def start(self, operation: Operation, run: Runner) -> None:
        """Start an operation.

        Raises:
            GatewayError: If the client has already used the operation id.
        """
        if self.is_used(*operation.key):
            raise SparkError(
                "INVALID_HANDLE.OPERATION_ALREADY_EXISTS",
                f"The handle {operation.id} is invalid. Operation already exists.",
                handle=operation.id,
            )
        self._by_key[operation.key] = operation
        self._own(operation.start(run))
        operation.on_end(lambda: self._count_result(operation))
        self._abandon_later(operation)

    @asynccontextmanager
    async def follow(self, operation: Operation) -> AsyncIterator[None]:
        """Count a stream as following an operation for the duration of the block.

        If the operation is not reattachable, it ends together with the stream.
        """
        try:
            with operation.watch():
                yield
        finally:
            if not operation.is_reattachable:
                await operation.interrupt()
                self.release(operation)
            else:
                self._abandon_later(operation)
                self._limit_results()

    def find(self, key: SessionKey, operation_id: str) -> Operation | None:
        """Return an operation of a session. None if it was released or abandoned."""
        return self._by_key.get((key, operation_id))

    def is_used(self, key: SessionKey, operation_id: str) -> bool:
        """Return whether an operation with the given id exists, or was released or abandoned."""
        return (key, operation_id) in self._by_key or (key, operation_id) in self._used

    def release(self, operation: Operation) -> None:
        """Discard an operation if it has ended.

        A running operation is kept until it is abandoned.
        """
        if operation.is_finished:
            self._forget(operation)

    async def interrupt(self, key: SessionKey, request: base_pb2.InterruptRequest) -> Sequence[str]:
        """Interrupt the running operations of a session that match a client's request.

        Returns:
            The ids of the interrupted operations.
        """
        named = [
            operation for operation in self._of_session(key) if is_meant(request, operation.id, operation.request.tags)
        ]
        return [operation.id for operation in named if await operation.interrupt()]

    async def end_session(self, key: SessionKey) -> None:
        """Interrupt and discard all operations of a session, and wait for their undo."""
        for operation in self._of_session(key):
            await operation.interrupt()
            self._forget(operation)

    async def wait(self, timeout_seconds: float) -> None:
        """Wait until all operations have ended, or the timeout has passed."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_seconds):
                for operation in list(self._by_key.values()):
                    await operation.ended()

    async def end_all(self) -> None:
        """Interrupt all operations, and wait until they are undone."""
        await asyncio.gather(*(operation.interrupt() for operation in list(self._by_key.values())))

    def _of_session(self, key: SessionKey) -> Sequence[Operation]:
        return [operation for operation in self._by_key.values() if operation.session_key == key]

    def _abandon_later(self, operation: Operation) -> None:
        """Schedule the end of an operation that no stream follows until the timeout."""
        if self._by_key.get(operation.key) is not operation:
            return
        self._cancel_timer(operation)
        loop = asyncio.get_running_loop()
        self._timers[operation.key] = loop.call_later(self._detached_timeout_seconds, self._abandon, operation)

    def _cancel_timer(self, operation: Operation) -> None:
        timer = self._timers.pop(operation.key, None)
        if timer is not None:
            timer.cancel()

    def _abandon(self, operation: Operation) -> None:
        is_known = self._by_key.get(operation.key) is operation
        if not is_known or operation.unwatched_seconds < self._detached_timeout_seconds - _CLOCK_SLACK_SECONDS:
            return
        if operation.is_finished:
            self._forget(operation)
        else:
            self._own(asyncio.create_task(self._abandon_running(operation)))

    async def _abandon_running(self, operation: Operation) -> None:
        if self._may_be_followed_elsewhere is not None and await self._may_be_followed_elsewhere(operation):
            self._abandon_later(operation)
        elif not operation.is_watched:
            self._forget(operation)
            await operation.interrupt()

    def _own(self, task: asyncio.Task[Any]) -> None:
        """Keep a reference to a task, so that it is not garbage-collected while it runs."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _count_result(self, operation: Operation) -> None:
        """Count the result of an operation that has ended."""
        if self._by_key.get(operation.key) is not operation:
            return
        principal, size_bytes = operation.session_key.principal, operation.size[1] + _ENTRY_BYTES
        self._ended.setdefault(principal, OrderedDict())[operation.key] = size_bytes
        self._bytes_by_principal[principal] += size_bytes
        self._limit_results()

    def _limit_results(self) -> None:
        """Discard results that no stream follows, the oldest of the principal whose results occupy most memory."""
        while self._bytes_by_principal.total() > MAX_RESULT_BYTES:
            principals = [principal for principal, _ in self._bytes_by_principal.most_common()]
            keys = (key for principal in principals for key in self._ended[principal])
            oldest = next((key for key in keys if not self._by_key[key].is_watched), None)
            if oldest is None:
                return
            log.debug("result_discarded", operation=oldest[1])
            self._forget(self._by_key[oldest])

    def _uncount_result(self, operation: Operation) -> None:
        principal = operation.session_key.principal
        ended = self._ended.get(principal, OrderedDict())
        self._bytes_by_principal[principal] -= ended.pop(operation.key, 0)
        if not ended:
            self._ended.pop(principal, None)
            del self._bytes_by_principal[principal]

    def _forget(self, operation: Operation) -> None:
        self._cancel_timer(operation)
        if self._by_key.pop(operation.key, None) is not None:
            self._uncount_result(operation)
            self._used[operation.key] = None
            if len(self._used) > _REMEMBERED_IDS:
                self._used.popitem(last=False)


def _detach(error: GatewayError) -> GatewayError:
    """Return a copy of an error without its traceback, its cause and its context, which refer to local variables."""
    copied = type(error).__new__(type(error), *error.args)
    copied.__dict__.update(error.__dict__)
    if isinstance(copied, BackendError):
        copied.error = copy.copy(copied.error)
    return copied


def is_meant(interrupt: base_pb2.InterruptRequest, operation_id: str, tags: Collection[str]) -> bool:
    """Return whether a client's request interrupts the operation with an id and tags."""
    kinds = base_pb2.InterruptRequest.InterruptType
    if interrupt.interrupt_type == kinds.INTERRUPT_TYPE_ALL:
        return True
    if interrupt.interrupt_type == kinds.INTERRUPT_TYPE_TAG:
        return interrupt.operation_tag in tags
    return bool(operation_id) and interrupt.operation_id == operation_id
