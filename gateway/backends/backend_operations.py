"""Operations that Lodge executes at the backend in the session of a client.

Guarantees:

1. :meth:`BackendOperations.execute` follows an operation until it has ended. The backend limits the duration and size
   of its result streams, so it may end a stream early. A connection can also be reset. In both cases, this class
   reattaches to the operation.
2. A plan runs at most once. If a connection is reset before the first response, the backend may not have received the
   plan. If it does not know the operation, this class sends the plan again under the same operation id. The backend
   runs only the first plan with this id. It refuses the plan if its session has been replaced since the last response.
3. If the backend cannot be reached for ``REATTACH_SECONDS``, or for ``START_SECONDS`` before the first response, or no
   longer knows the session or the operation, the execution fails with the error of the reset. Before that, the
   operation is interrupted, so that a job that still runs does not write files into a directory that the caller
   removes.

Source: [spark-connect-server ExecuteGrpcResponseSender]: a client must reattach to a stream that ended without
``result_complete``.
"""

import asyncio
import contextlib
import random
import time
import uuid
from collections.abc import Awaitable, Callable

import structlog
from grpc import aio
from pyspark.sql.connect.proto import base_pb2

from gateway.backends.followed_operation import Execution, ExecutionResult, FollowedOperation, OnRows
from gateway.backends.session_channel import SessionChannel, is_reset
from gateway.errors import OPERATION_NOT_FOUND, BackendError, GatewayError
from gateway.messages.error_status import condition_of

_CLEANUP_SECONDS = 10.0
_FIRST_PAUSE_SECONDS = 0.1
_LONGEST_PAUSE_SECONDS = 2.0
_IN_FLIGHT_SECONDS = 2.0
_SHORT_STREAM_SECONDS = 1.0  # Spark ends a stream without a response after minutes
_HANDLE_LOST = "INVALID_HANDLE."
_RAISED_BY_PLAN = "USER_RAISED_EXCEPTION"

log = structlog.get_logger(__name__)
OnProgress = Callable[[base_pb2.ExecutePlanResponse], Awaitable[None]]


class BackendOperations:
    """Executes and follows operations in the session of a client.

    Args:
        channel: Sends the requests.
    """

    def __init__(self, channel: SessionChannel) -> None:
        self._channel = channel
        self._leaves_operations = False

    def leave_running(self) -> None:
        """Let operations continue at the backend when their execution here is cancelled."""
        self._leaves_operations = True

    async def execute(
        self,
        plan: base_pb2.Plan,
        *,
        operation_id: str = "",
        on_progress: OnProgress | None = None,
        on_rows: OnRows | None = None,
        keep: bool = False,
    ) -> ExecutionResult:
        """Execute a plan and wait until it finishes.

        Args:
            plan: The plan.
            operation_id: The UUID of the operation, for following and interrupting it. If empty, a new UUID is
                generated.
            on_progress: A function that is called with each progress message.
            on_rows: A function that is called with each batch of rows, as a stream in Arrow's IPC format.
            keep: Whether the backend keeps the result until :meth:`release` is called, so that another replica can
                follow the operation.

        Raises:
            BackendError: If the execution fails.
        """
        request = self._channel.build(
            base_pb2.ExecutePlanRequest,
            client_type=self._channel.request.client_type,
            operation_id=operation_id or str(uuid.uuid4()),
            tags=self._channel.request.tags,
        )
        request.plan.CopyFrom(plan)
        request.request_options.add().reattach_options.reattachable = True
        result = self._result("ExecutePlan", request, on_progress, on_rows)
        if keep:
            return await result
        try:
            return await result
        finally:
            await self.release(request.operation_id)

    async def use_operation_id(self, operation_id: str, plan: base_pb2.Plan) -> bool:
        """Begin an operation with an id of the client, so that no other operation can begin with it.

        Args:
            operation_id: The UUID of the operation.
            plan: A plan that calls ``raise_error``. The client receives its error if it reattaches to the operation.

        Returns:
            Whether the operation has begun. False if an operation with this id exists or existed, or if the backend
            does not know the session.

        Raises:
            BackendError: If it is not known whether the operation has begun.
        """
        request = self._channel.build_for_observed_session(
            base_pb2.ExecutePlanRequest,
            client_type=self._channel.request.client_type,
            operation_id=operation_id,
            plan=plan,
        )
        request.request_options.add().reattach_options.reattachable = True
        try:
            async for _ in self._channel.stream("ExecutePlan", request):
                pass
        except BackendError as error:
            condition = condition_of(error.error)
            if condition.startswith(_HANDLE_LOST):
                return False
            if condition != _RAISED_BY_PLAN:
                raise
        return True

    async def follow(self, operation_id: str, *, on_progress: OnProgress | None = None) -> ExecutionResult:
        """Wait until an operation that another replica started has finished.

        The backend keeps the result of the operation.

        Raises:
            BackendError: If the execution fails, or the operation does not exist at the backend.
        """
        request = self._channel.build(base_pb2.ReattachExecuteRequest, operation_id=operation_id)
        return await self._result("ReattachExecute", request, on_progress)

    async def release(self, operation_id: str) -> None:
        """Release an operation at the backend.

        Errors are ignored, because the backend discards abandoned operations later.
        """
        request = self._channel.build(base_pb2.ReleaseExecuteRequest, operation_id=operation_id)
        request.release_all.SetInParent()
        with contextlib.suppress(GatewayError, aio.UsageError):
            await self._channel.call("ReleaseExecute", request, timeout_seconds=_CLEANUP_SECONDS)

    async def _result(
        self, method: str, request: Execution, on_progress: OnProgress | None, on_rows: OnRows | None = None
    ) -> ExecutionResult:
        """Follow an operation until it has ended."""
        reattach = self._channel.build(base_pb2.ReattachExecuteRequest, operation_id=request.operation_id)
        plan = request if isinstance(request, base_pb2.ExecutePlanRequest) else None
        following = FollowedOperation(method, request, reattach, plan, on_rows)
        error: BackendError | None = None
        try:
            while not following.is_complete:
                error = await self._read_streams(following, on_progress)
                if error is not None:
                    await self._fail(error, following)
        except asyncio.CancelledError:
            if not self._leaves_operations:
                await self._stop(following)
            raise
        finally:
            error = following.reset = None  # an error and a frame that refer to each other would keep the plan
        return following.result()

    async def _read_streams(self, following: FollowedOperation, on_progress: OnProgress | None) -> BackendError | None:
        """Read streams of responses until another stream would not help.

        A library for retries would keep the error of each attempt, and so the plan, together with the attempt's frame.

        Returns:
            The error of the last stream. None if it ended without an error.
        """
        longest_seconds = _FIRST_PAUSE_SECONDS
        while True:
            error = await self._read_stream(following, on_progress)
            if error is None or not following.may_continue(error) or following.is_given_up():
                return error
            error = None
            await asyncio.sleep(random.uniform(0, longest_seconds))  # noqa: S311 - no secret
            longest_seconds = min(2 * longest_seconds, _LONGEST_PAUSE_SECONDS)

    async def _read_stream(self, following: FollowedOperation, on_progress: OnProgress | None) -> BackendError | None:
        """Read the responses of an operation until the stream ends.

        Returns:
            The error that ended the stream. None if the stream ended without an error, or was reset after a response.
        """
        has_advanced, begun = False, time.monotonic()
        try:
            async for response in self._channel.stream(following.method, following.request):
                has_advanced = True
                if not following.take(response):
                    raise self._channel.failed("it sent too many messages without rows")
                self._channel.note_session(response.server_side_session_id)
                if following.on_rows is not None and response.arrow_batch.row_count:
                    await following.on_rows(response.arrow_batch.data)
                if on_progress is not None and response.HasField("execution_progress"):
                    await on_progress(response)
                if following.is_complete:
                    return None
        except BackendError as error:
            if not is_reset(error.error):
                following.choose_next(condition_of(error.error), self._channel.server_side_session_id)
                return error
            log.warning(
                "backend_connection_reset",
                backend=self._channel.backend.address,
                operation=following.reattach.operation_id,
                reason=error.error.details(),
            )
            following.count_reset(error)
            return None if has_advanced else error
        following.reattach_next()  # the backend ended the stream early
        if not has_advanced and time.monotonic() - begun < _SHORT_STREAM_SECONDS:
            following.count_empty_stream()
            if following.is_given_up():
                raise self._channel.failed("it ends the stream of an operation again and again")
            await asyncio.sleep(_FIRST_PAUSE_SECONDS)
        return None

    async def _fail(self, error: BackendError, following: FollowedOperation) -> None:
        """Raise the error of an execution. Stop the operation first if it may still run."""
        reset = following.reset
        try:
            if reset is None or not (is_reset(error.error) or condition_of(error.error).startswith(_HANDLE_LOST)):
                raise error
            await self._stop(following)
            raise reset
        finally:
            following.reset = None
            del error, reset

    async def _stop(self, following: FollowedOperation) -> None:
        """Interrupt an operation. If the backend may not have received its plan yet, wait for the plan.

        Without the wait, the plan could arrive after the interrupt, and change what the caller has undone by then.
        """
        operation_id = following.reattach.operation_id
        await self._interrupt(operation_id)
        if following.plan is None:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_IN_FLIGHT_SECONDS):
                while await self._is_unknown(following.reattach):  # noqa: ASYNC110 - no event reports its arrival
                    await asyncio.sleep(_FIRST_PAUSE_SECONDS)
        await self._interrupt(operation_id)

    async def _is_unknown(self, reattach: base_pb2.ReattachExecuteRequest) -> bool:
        """Return whether the backend has the session, but does not know the operation."""
        try:
            async for _ in self._channel.stream("ReattachExecute", reattach):
                break
        except BackendError as error:
            return condition_of(error.error) == OPERATION_NOT_FOUND
        return False

    async def _interrupt(self, operation_id: str) -> None:
        """Interrupt an operation. Releasing the operation would not stop its Spark jobs."""
        request = self._channel.build(
            base_pb2.InterruptRequest,
            interrupt_type=base_pb2.InterruptRequest.INTERRUPT_TYPE_OPERATION_ID,
            operation_id=operation_id,
        )
        with contextlib.suppress(GatewayError, aio.UsageError):  # the gateway may have closed the connection
            await self._channel.call("Interrupt", request, timeout_seconds=_CLEANUP_SECONDS)
