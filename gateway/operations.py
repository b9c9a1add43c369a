"""Statements that Lodge answers itself, as reattachable operations.

Why it exists: an unmodified client runs every statement as a reattachable operation: it may lose its stream, come back
with ``ReattachExecute`` and name the last response it saw, and it releases responses as it reads them. What Spark does
for its own operations, Lodge does here for those it answers, under the operation id that the client chose.

Guarantees:

1. An operation runs once, whatever happens to the streams that watch it; a second ``ExecutePlan`` with its id is
   refused as Spark refuses it.
2. A reattaching client gets every response after the last one it saw, and the result as the last.
3. An interrupt of the operation, of its tag or of all ends it with Spark's own error, and what it had begun is undone.
4. A finished operation that nobody watches is forgotten after the same time as at Spark (five minutes).

Source: Spark: SparkConnectReattachExecuteHandler, ExecuteGrpcResponseSender; design, "Gateway".
"""

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

from pyspark.sql.connect.proto import base_pb2

from gateway.errors import CanceledError, LodgeError
from gateway.requests import SessionKey

ABANDONED_AFTER_SECONDS = 300.0
_KEPT_PROGRESS_RESPONSES = 16

Work = Callable[["Operation"], Awaitable[base_pb2.ExecutePlanResponse.SqlCommandResult]]
"""Does what the statement says. Cancelling it must undo what it has begun."""


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
        self._error: LodgeError | None = None
        self._is_finished = False
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._interrupted = False

    @property
    def is_finished(self) -> bool:
        return self._is_finished

    def start(self, work: Work) -> asyncio.Task[None]:
        self._task = asyncio.create_task(self._run(work))
        return self._task

    async def progress(self, response: base_pb2.ExecutePlanResponse) -> None:
        """Passes a progress message of the backend on to the client."""
        if len(self._responses) < _KEPT_PROGRESS_RESPONSES:
            self._add(response)

    async def interrupt(self) -> bool:
        """Ends the operation if it still runs, and waits until what it had begun is undone."""
        if self._is_finished or self._task is None:
            return False
        self._interrupted = True
        self._task.cancel()
        await asyncio.wait([self._task])
        return True

    def release_until(self, response_id: str) -> None:
        """The client has seen everything up to this response."""
        self._responses = self._responses[self._after(response_id) :]

    async def responses(self, last_response_id: str = "") -> AsyncIterator[bytes]:
        """Every response after the named one, until the operation ends.

        Raises: LodgeError as the operation failed.
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
            result = await work(self)
            response = self._response()
            response.sql_command_result.CopyFrom(result)
            self._add(response)
            if self.is_reattachable:
                complete = self._response()
                complete.result_complete.SetInParent()
                self._add(complete)
        except LodgeError as error:
            self._error = error
        except asyncio.CancelledError:
            self._error = CanceledError()
            if not self._interrupted:
                raise
        finally:
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
    """The operations that Lodge answers at this replica."""

    def __init__(self) -> None:
        self._by_key: dict[tuple[str, str, str], Operation] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, operation: Operation, work: Work) -> None:
        """Raises: LodgeError if the client used the operation id before."""
        if operation.key in self._by_key:
            raise LodgeError(
                "INVALID_HANDLE.OPERATION_ALREADY_EXISTS",
                "HY000",
                f"The handle {operation.id} is invalid. Operation already exists.",
            )
        self._by_key[operation.key] = operation
        task = operation.start(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda _: self._forget_later(operation))

    def find(self, key: SessionKey, operation_id: str) -> Operation | None:
        return self._by_key.get((key.principal, key.client_session_id, operation_id))

    def release(self, operation: Operation) -> None:
        """The client needs nothing of the operation any more; a running one is forgotten when it ends."""
        if operation.is_finished:
            self._by_key.pop(operation.key, None)

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
            self._by_key.pop(operation.key, None)

    async def end_all(self) -> None:
        for operation in list(self._by_key.values()):
            await operation.interrupt()

    def _of(self, key: SessionKey) -> Sequence[Operation]:
        return [
            operation
            for operation in self._by_key.values()
            if operation.key[:2] == (key.principal, key.client_session_id)
        ]

    def _forget_later(self, operation: Operation) -> None:
        asyncio.get_running_loop().call_later(ABANDONED_AFTER_SECONDS, lambda: self._by_key.pop(operation.key, None))


def _is_meant(operation: Operation, request: base_pb2.InterruptRequest) -> bool:
    kinds = base_pb2.InterruptRequest.InterruptType
    if request.interrupt_type == kinds.INTERRUPT_TYPE_ALL:
        return True
    if request.interrupt_type == kinds.INTERRUPT_TYPE_TAG:
        return request.operation_tag in operation.request.tags
    return request.operation_id == operation.id
