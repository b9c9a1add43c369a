"""Statements that Lodge answers itself, as reattachable operations.

Why it exists: an unmodified client runs every statement as a reattachable operation: it may lose its stream, come back
with ``ReattachExecute`` and name the last response it saw, and it releases responses as it reads them. What Spark does
for its own operations, Lodge does here for those it answers, under the operation id that the client chose.

Guarantees:

1. An operation runs once, whatever happens to the streams that watch it; a second ``ExecutePlan`` with its id is
   refused as Spark refuses it.
2. A reattaching client gets every response after the last one it saw, and the result as the last.
3. An interrupt of the operation, of its tag or of all ends it with Spark's own error, and what it had begun is undone.
4. An operation that nobody watches for the detached timeout is ended if it still runs, and forgotten, as at Spark.
5. An operation id that was used is refused for as long as Spark would know it, also after its release.

Source: Spark: SparkConnectReattachExecuteHandler, ExecuteGrpcResponseSender; design, "Gateway".
"""

import asyncio
import time
import uuid
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager

import structlog
from pyspark.sql.connect.proto import base_pb2

from gateway.errors import CanceledError, GatewayError, final, storage_failed
from gateway.requests import SessionKey

_KEPT_PROGRESS_RESPONSES = 16
_CLOCK_SLACK_SECONDS = 0.1  # a timer of the loop may be early
_REMEMBERED_IDS = 10_000  # Spark: spark.connect.execute.manager.abandonedTombstonesSize

log = structlog.get_logger(__name__)

Work = Callable[["Operation"], Awaitable[base_pb2.ExecutePlanResponse]]
"""Does what the statement says, and gives its answer. Cancelling it must undo what it has begun."""


class Operation:
    """One statement that Lodge answers.

    Args:
        request: The client's own request, without its plan.
        server_side_session_id: As the backend told it; empty if not known yet.
    """

    def __init__(self, request: base_pb2.ExecutePlanRequest, server_side_session_id: str = "") -> None:
        self.request = request
        self.id = request.operation_id
        self.key = (request.user_context.user_id, request.session_id, self.id)
        self.is_reattachable = any(option.reattach_options.reattachable for option in request.request_options)
        self.server_side_session_id = server_side_session_id
        self._responses: list[base_pb2.ExecutePlanResponse] = []
        self._error: GatewayError | None = None
        self._is_answered = False
        self._is_finished = False
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._interrupted = False
        self._watchers = 0
        self._unwatched_since_seconds = time.monotonic()

    @property
    def unwatched_seconds(self) -> float:
        """For how long no client's stream followed it."""
        return 0.0 if self._watchers else time.monotonic() - self._unwatched_since_seconds

    @contextmanager
    def watched(self) -> Iterator[None]:
        """While a client's stream follows it."""
        self._watchers += 1
        try:
            yield
        finally:
            self._watchers -= 1
            self._unwatched_since_seconds = time.monotonic()

    @property
    def is_finished(self) -> bool:
        return self._is_finished

    def start(self, work: Work) -> asyncio.Task[None]:
        self._task = asyncio.create_task(self._run(work))
        self._task.add_done_callback(self._finish)
        return self._task

    async def progress(self, response: base_pb2.ExecutePlanResponse) -> None:
        """Passes a progress message of the backend on to the client."""
        if len(self._responses) < _KEPT_PROGRESS_RESPONSES:
            self._add(response)

    async def interrupt(self) -> bool:
        """Ends the operation if it still runs, and waits until what it had begun is undone."""
        if self._is_finished or self._task is None:
            return False
        if not self._interrupted:  # once more would end what undoes it
            self._interrupted = True
            self._task.cancel()
        await asyncio.wait([self._task])
        return True

    def release_until(self, response_id: str) -> None:
        """The client has seen everything up to this response."""
        self._responses = self._responses[self._after(response_id) :]

    async def responses(self, last_response_id: str = "") -> AsyncIterator[bytes]:
        """Every response after the named one, until the operation ends.

        Raises: GatewayError as the operation failed.
        """
        seen = {last_response_id} | {r.response_id for r in self._responses[: self._after(last_response_id)]}
        while True:
            changed, unseen, finished = self._changed, self._unseen(seen), self._is_finished
            if not unseen and not finished:
                await changed.wait()
                continue
            for response in unseen:
                seen.add(response.response_id)
                yield response.SerializeToString()
            if finished:
                break
        if self._error is not None:
            raise self._error

    def _unseen(self, seen: set[str]) -> Sequence[base_pb2.ExecutePlanResponse]:
        return [response for response in self._responses if response.response_id not in seen]

    def _after(self, response_id: str) -> int:
        ids = [response.response_id for response in self._responses]
        return ids.index(response_id) + 1 if response_id in ids else 0

    async def _run(self, work: Work) -> None:
        try:
            answer = await work(self)
            self._is_answered = True
            response = self._response()
            response.MergeFrom(answer)
            if answer.ListFields():
                self._add(response)
            if self.is_reattachable:
                complete = self._response()
                complete.result_complete.SetInParent()
                self._add(complete)
        except GatewayError as error:
            self._error = final(error)
        except asyncio.CancelledError:
            self._error = CanceledError()
            if not self._interrupted:
                raise
        except Exception as error:
            if isinstance(error, OSError) and not isinstance(error, TimeoutError):
                log.warning("statement_refused", operation=self.id, reason=str(error))
                self._error = storage_failed(error)
                return
            log.exception("statement_broke", operation=self.id)
            self._error = GatewayError(
                "LODGE_STATEMENT_FAILED", "58000", "The statement failed in the gateway, whose log has the reason."
            )

    def _finish(self, _: "asyncio.Task[None]") -> None:
        """Also of a task that was cancelled before its first step."""
        if not self._is_answered and self._error is None:
            self._error = CanceledError()
        self._is_finished = True
        self._wake()

    def _add(self, response: base_pb2.ExecutePlanResponse) -> None:
        self._responses.append(response)
        self._wake()

    def _wake(self) -> None:
        """Lets every stream look anew."""
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
    """The operations that Lodge answers at this replica.

    Args:
        detached_timeout_seconds: How long an operation that nobody watches runs on, and its answer is kept.
    """

    def __init__(self, detached_timeout_seconds: float) -> None:
        self._detached_timeout_seconds = detached_timeout_seconds
        self._by_key: dict[tuple[str, str, str], Operation] = {}
        self._used: OrderedDict[tuple[str, str, str], None] = OrderedDict()
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, operation: Operation, work: Work) -> None:
        """Raises: GatewayError if the client used the operation id before."""
        if operation.key in self._by_key or operation.key in self._used:
            raise GatewayError(
                "INVALID_HANDLE.OPERATION_ALREADY_EXISTS",
                "HY000",
                f"The handle {operation.id} is invalid. Operation already exists.",
            )
        self._by_key[operation.key] = operation
        task = operation.start(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        self._look_after(operation)

    @asynccontextmanager
    async def followed(self, operation: Operation) -> AsyncIterator[None]:
        """While a client's stream follows an operation; one that cannot be reattached ends with its stream."""
        try:
            with operation.watched():
                yield
        finally:
            if not operation.is_reattachable:
                await operation.interrupt()
                self.release(operation)
            else:
                self._look_after(operation)

    def find(self, key: SessionKey, operation_id: str) -> Operation | None:
        return self._by_key.get((key.principal, key.client_session_id, operation_id))

    def release(self, operation: Operation) -> None:
        """The client needs nothing of the operation any more; a running one is forgotten when it ends."""
        if operation.is_finished:
            self._forget(operation)

    async def interrupt(self, key: SessionKey, request: base_pb2.InterruptRequest) -> Sequence[str]:
        """Ends the running operations that a client's interrupt means.

        Returns: The ids of those that it ended.
        """
        named = [operation for operation in self._of(key) if _is_meant(operation, request)]
        return [operation.id for operation in named if await operation.interrupt()]

    async def end_session(self, key: SessionKey) -> None:
        """Ends all operations of a session, and waits until what they had begun is undone."""
        for operation in self._of(key):
            await operation.interrupt()
            self._forget(operation)

    async def end_all(self) -> None:
        for operation in list(self._by_key.values()):
            await operation.interrupt()

    def _of(self, key: SessionKey) -> Sequence[Operation]:
        return [
            operation
            for operation in self._by_key.values()
            if operation.key[:2] == (key.principal, key.client_session_id)
        ]

    def _look_after(self, operation: Operation) -> None:
        """Ends and forgets an operation if nobody watches it by then."""
        asyncio.get_running_loop().call_later(self._detached_timeout_seconds, self._abandon, operation)

    def _abandon(self, operation: Operation) -> None:
        is_known = self._by_key.get(operation.key) is operation
        if not is_known or operation.unwatched_seconds < self._detached_timeout_seconds - _CLOCK_SLACK_SECONDS:
            return
        self._forget(operation)
        if not operation.is_finished:
            ending = asyncio.create_task(self._end(operation))
            self._tasks.add(ending)
            ending.add_done_callback(self._tasks.discard)

    @staticmethod
    async def _end(operation: Operation) -> None:
        await operation.interrupt()

    def _forget(self, operation: Operation) -> None:
        if self._by_key.pop(operation.key, None) is not None:
            self._used[operation.key] = None
            if len(self._used) > _REMEMBERED_IDS:
                self._used.popitem(last=False)


def _is_meant(operation: Operation, request: base_pb2.InterruptRequest) -> bool:
    kinds = base_pb2.InterruptRequest.InterruptType
    if request.interrupt_type == kinds.INTERRUPT_TYPE_ALL:
        return True
    if request.interrupt_type == kinds.INTERRUPT_TYPE_TAG:
        return request.operation_tag in operation.request.tags
    return request.operation_id == operation.id
