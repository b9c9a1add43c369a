"""The statements whose scans are being planned.

While the scans of a statement are planned, the backend does not know its operation. Therefore the gateway itself must
end the planning if the client interrupts the statement, or if the gateway stops. It also sends the progress of
discovery jobs to the client. A client that has received progress does not send its statement again. Therefore the
planning then continues if the client loses its stream, until the client reattaches.

Guarantees:

1. An interrupt by operation id, by tag or of all operations ends the planning with the same error as in Spark.
2. When the gateway hands over its statements, a planning without progress ends with an error after which the client
   sends the statement again, to another gateway. A planning with progress can finish until :meth:`Drain.give_up`, if a
   stream follows it.
3. A planning with progress ends only with its result, with an interrupt, with a release, or if no stream follows it for
   the detached timeout. A planning without progress ends together with the stream of its client.
4. The result of a planning with progress is kept until the backend has answered the statement, so that another stream
   of the client can send it. No statement is sent to the backend without a stream of the client. Otherwise, a client
   that sends its statement again through another replica would find it in use.

Not guaranteed: another replica does not know the planning. A client that has received progress and reattaches there
receives an error.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from pyspark.sql.connect.proto import base_pb2

from gateway.drain import Drain, GatewayStoppingError
from gateway.errors import CanceledError, GatewayError
from gateway.futures import retrieve_error
from gateway.requests import Request, SessionKey
from gateway.scans.discovery_progress import PROGRESS_AFTER_SECONDS, DiscoveryProgress

Write = Callable[[bytes], Awaitable[None]]
"""A function that sends an encoded response to the client."""

_Result = TypeVar("_Result")
_KINDS = base_pb2.InterruptRequest.InterruptType


class StreamReplacedError(Exception):
    """A stream of a client whose statement another stream of the client follows now.

    The stream ends without an error and without a last response. A client that still reads it reattaches.
    """


class Planning:
    """The planning of one statement.

    Args:
        session: The session of the statement.
        write: Sends a response in the stream that started the statement. None if the client cannot receive progress.
        progress_after_seconds: How long a discovery job runs before the client receives its progress.

    Attributes:
        request: The request of the statement, without its plan.
        progress: The progress of discovery.
        has_responded: Whether the client may have received progress.
        is_kept: Whether the client can reattach to the statement.
        is_closed: Whether the planning has ended, and its result is not needed any more.
    """

    def __init__(self, session: SessionKey, write: Write | None, progress_after_seconds: float) -> None:
        self.session = session
        self._write = write
        self.request = base_pb2.ExecutePlanRequest()
        self.progress = DiscoveryProgress(progress_after_seconds, self._wake)
        self.has_responded = self.is_kept = self.is_closed = False
        self._task: asyncio.Task[Any] | None = None
        self._is_interrupted = self._is_without_first_stream = self._has_given_up = False
        self._changed = asyncio.Event()
        self._follower: object = None
        self._streams = 1
        self._unfollowed_since_seconds = time.monotonic()

    @property
    def key(self) -> tuple[SessionKey, str]:
        """The session and the operation id."""
        return self.session, self.request.operation_id

    def close(self) -> None:
        """End the planning if it runs, and discard its result."""
        self.is_closed = True
        self.end()
        if self._task is not None and self._task.done():
            self._task = None  # its result contains the plan
        self._wake()

    def end(self) -> None:
        """Cancel the planning if it runs."""
        if self._task is not None:
            self._task.cancel()

    def hand_over(self) -> None:
        """End the planning because the gateway stops, unless only this gateway can finish it."""
        if not self.is_kept:
            self.end()
        elif not self._streams:
            self.close()

    def give_up(self) -> None:
        """End the planning because the gateway does not wait any longer."""
        self._has_given_up = True
        self.end()
        self._wake()

    @contextmanager
    def followed(self) -> Iterator[None]:
        """Count a stream as following the planning or its result for the duration of the block."""
        self._streams += 1
        try:
            yield
        finally:
            self._leave()

    async def follow(self, write: Write, last_response_id: str) -> Any:
        """Send progress to a client that reattached, until the planning has ended.

        The stream that followed the planning before does not receive anything from now on.

        Returns:
            The result of the planning. None if the planning was closed without a result.

        Raises:
            GatewayError: If the planning failed.
            StreamReplacedError: If another stream follows the planning now.
        """
        if await self._send_progress(write, last_response_id, self._is_prepared):
            raise StreamReplacedError
        if self.is_closed:
            return None
        try:
            return self._result()
        except asyncio.CancelledError:  # of the task
            raise GatewayStoppingError from None

    def matches(self, interrupt: base_pb2.InterruptRequest) -> bool:
        """Return whether an interrupt of the session concerns the statement."""
        if interrupt.interrupt_type == _KINDS.INTERRUPT_TYPE_ALL:
            return True
        if interrupt.interrupt_type == _KINDS.INTERRUPT_TYPE_TAG:
            return interrupt.operation_tag in self.request.tags
        return bool(self.request.operation_id) and interrupt.operation_id == self.request.operation_id

    async def interrupt(self) -> None:
        """End the planning for the client, and wait until its job has ended."""
        self._is_interrupted = True
        self.end()
        if self._task is not None and not self._task.done():
            await asyncio.wait([self._task])

    def begin(self, request: base_pb2.ExecutePlanRequest, work: Coroutine[Any, Any, Any]) -> None:
        """Start a part of the planning."""
        self.request = request
        self._task = asyncio.create_task(work)
        self._task.add_done_callback(retrieve_error)
        self._task.add_done_callback(lambda _: self._wake())

    async def finish(self, detached_timeout_seconds: float) -> Any:
        """Follow the part of the planning that runs, in the stream that started the statement. Return its result.

        Raises:
            asyncio.CancelledError: If the stream has ended, or the planning was cancelled.
            GatewayError: If the work fails, or the client interrupts or releases the statement.
            StreamReplacedError: If another stream has continued the statement.
        """
        if not self._is_without_first_stream:
            try:
                is_displaced = await self._send_progress(self._write, "", self._has_ended)
            except asyncio.CancelledError:
                if not self.is_kept:
                    await self._cancel()
                    raise
                await self.keep(detached_timeout_seconds)
            else:
                if is_displaced:
                    await self._keep_displaced(detached_timeout_seconds)
        else:
            await self.keep(detached_timeout_seconds)
        if self.is_closed:
            raise CanceledError
        try:
            return self._result()
        finally:
            if not self.is_kept:
                self._task = None  # its result contains the plan

    async def _keep_displaced(self, timeout_seconds: float) -> None:
        try:
            await self.keep(timeout_seconds)
        except asyncio.CancelledError:
            raise StreamReplacedError from None

    async def keep(self, timeout_seconds: float) -> None:
        """Wait without the first stream of the statement, while another stream can continue it.

        Returns only if the result does not need a stream.

        Raises:
            asyncio.CancelledError: When another stream has continued the statement, or no stream has followed it for
                the timeout.
        """
        if not self._is_without_first_stream:
            self._is_without_first_stream = True
            self._leave()
        current = asyncio.current_task()
        is_reported = current is not None and current.cancelling() > 0
        while not self.is_closed and not self._continues_without_stream():
            remaining_seconds = None
            if not self._streams:
                remaining_seconds = timeout_seconds + self._unfollowed_since_seconds - time.monotonic()
                if remaining_seconds <= 0 or self._has_given_up:
                    break
            try:
                await self._wait(self._changed, remaining_seconds)
            except asyncio.CancelledError:
                if is_reported:
                    await self._cancel()
                    raise
                is_reported = True  # gRPC reports the end of the stream after the failed write
        else:
            if not self.is_closed:
                return
        self.close()
        raise asyncio.CancelledError

    def _leave(self) -> None:
        self._streams -= 1
        self._unfollowed_since_seconds = time.monotonic()
        self._wake()

    def _has_ended(self) -> bool:
        return self._task is None or self._task.done()

    def _continues_without_stream(self) -> bool:
        """Return whether a part of the planning has ended, and its result is not a request for the backend."""
        task = self._task
        if task is None or not task.done() or task.cancelled() or task.exception() is not None:
            return False
        return not isinstance(task.result(), Request)

    async def _send_progress(self, write: Write | None, last_response_id: str, has_ended: Callable[[], bool]) -> bool:
        """Send the progress of discovery until the planning has ended.

        Returns:
            Whether another stream follows the planning now.
        """
        self._follower = follower = object()
        self._wake()
        while not has_ended() and not self.is_closed:
            if self._follower is not follower:
                return True
            changed, response, wait_seconds = self._changed, self.progress.last, None
            if response is not None and response.response_id != last_response_id and self._may_respond(write):
                wait_seconds = self.progress.due_in_seconds
                if wait_seconds <= 0:
                    last_response_id = response.response_id
                    await self._send(response, write)
                    continue
            await self._wait(changed, wait_seconds)
        return False

    def _may_respond(self, write: Write | None) -> bool:
        return write is not None and bool(self.request.operation_id)

    async def _send(self, response: base_pb2.ExecutePlanResponse, write: Write | None) -> None:
        self.has_responded = True
        options = self.request.request_options
        self.is_kept = any(option.reattach_options.reattachable for option in options)
        response.session_id = self.request.session_id
        response.operation_id = self.request.operation_id
        with suppress(GatewayError):  # the responses in memory exceed a limit, and progress can be left out
            if write is not None:
                await write(response.SerializeToString())

    def _is_prepared(self) -> bool:
        """Return whether the whole planning has ended, with a result or with an error."""
        task = self._task
        if task is None or not task.done():
            return False
        return task.cancelled() or task.exception() is not None or task.result() is not None

    def _result(self) -> Any:
        if self._is_interrupted:
            raise CanceledError
        if self._task is None:
            raise LookupError("The planning has not begun.")
        return self._task.result()

    async def _cancel(self) -> None:
        """Cancel the planning, and wait until its job has ended."""
        self.end()
        if self._task is not None and not self._task.done():
            await asyncio.wait([self._task])

    @staticmethod
    async def _wait(changed: asyncio.Event, timeout_seconds: float | None) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_seconds):
                await changed.wait()

    def _wake(self) -> None:
        """Wake up all that wait for a change."""
        self._changed.set()
        self._changed = asyncio.Event()


class Plannings:
    """All plannings of a replica.

    Args:
        drain: What the gateway hands over when it stops.
        detached_timeout_seconds: How long a planning with progress continues while no stream follows it.
        progress_after_seconds: How long a discovery job runs before the client receives its progress.
    """

    def __init__(
        self,
        drain: Drain,
        detached_timeout_seconds: float = 0.0,
        progress_after_seconds: float = PROGRESS_AFTER_SECONDS,
    ) -> None:
        self._drain = drain
        self._detached_timeout_seconds = detached_timeout_seconds
        self._progress_after_seconds = progress_after_seconds
        self._open: set[Planning] = set()

    @contextmanager
    def plan(self, session: SessionKey, write: Write | None = None) -> Iterator[Planning]:
        """Return a planning that is closed at the end of the block.

        Args:
            session: The session of the statement.
            write: Sends a response in the stream that started the statement. None if the client cannot receive
                progress.
        """
        planning = Planning(session, write, self._progress_after_seconds)
        try:
            yield planning
        finally:
            self._open.discard(planning)
            planning.close()

    async def run(
        self, planning: Planning, request: base_pb2.ExecutePlanRequest, work: Coroutine[Any, Any, _Result]
    ) -> _Result:
        """Plan the scans of a statement.

        Args:
            planning: The planning of the statement.
            request: The request of the statement, without its plan.
            work: The planning of its scans. If it returns None, the planning continues with another call.

        Returns:
            The result of the planning.

        Raises:
            CanceledError: If the client interrupts the statement.
            GatewayStoppingError: If the gateway stops.
            StreamReplacedError: If another stream of the client has continued the statement.
        """
        earlier = self.find(planning.session, request.operation_id)
        if earlier is not None and earlier is not planning:
            earlier.close()  # the client has sent the statement again
        self._open.add(planning)
        planning.begin(request, work)
        try:
            with self._drain.handing_over(planning.hand_over), self._drain.finishing(planning.give_up):
                result: _Result = await planning.finish(self._detached_timeout_seconds)
                return result
        finally:
            if not planning.is_kept:
                self._open.discard(planning)

    async def keep(self, planning: Planning) -> None:
        """Keep the result of a planning for another stream of the client. See :meth:`Planning.keep`."""
        with self._drain.handing_over(planning.hand_over), self._drain.finishing(planning.give_up):
            await planning.keep(self._detached_timeout_seconds)

    def find(self, session: SessionKey, operation_id: str) -> Planning | None:
        """Return the planning of an operation whose client has received progress. None if there is none."""
        if not operation_id:
            return None
        key = session, operation_id
        return next((each for each in self._open if each.is_kept and not each.is_closed and each.key == key), None)

    async def interrupt(self, session: SessionKey, interrupt: base_pb2.InterruptRequest) -> Sequence[str]:
        """End the plannings of a session that match a client's request. Return the ids of their operations."""
        found = [each for each in self._open if each.session == session and not each.is_closed]
        found = [each for each in found if each.matches(interrupt)]
        for planning in found:
            await planning.interrupt()
        return [planning.request.operation_id for planning in found if planning.request.operation_id]

    def end_session(self, session: SessionKey) -> None:
        """End the plannings of a session that would wait for its client."""
        for planning in list(self._open):
            if planning.session == session and planning.is_kept:
                planning.close()

    def stop(self) -> None:
        """End all plannings."""
        for planning in list(self._open):
            planning.close()
