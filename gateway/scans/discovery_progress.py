"""The progress of long discoveries, as responses to the client of a statement.

During discovery, the backend does not know the operation of the statement yet. A client that has received a response
does not send its statement again after a reset. It only reattaches to the operation.

Guarantees:

1. In the first ``PROGRESS_AFTER_SECONDS`` of a statement, the client receives no progress, so it can send the statement
   again.
2. The response ids of progress differ from all response ids of Spark. Every replica recognises them.
3. A client that does not receive its responses does not delay discovery. Progress for which a limit leaves no room is
   left out.

Source: [spark-connect-client ExecutePlanResponseReattachableIterator].
"""

import asyncio
import secrets
import time
import uuid
from collections.abc import Awaitable, Callable
from contextlib import suppress

from pyspark.sql.connect.proto import base_pb2

from gateway.blocking_work.futures import retrieve_error
from gateway.errors import GatewayError
from gateway.messages.requests import Request

PROGRESS_AFTER_SECONDS = 10.0
"""How long a statement takes before the client receives the progress of its discovery.

In this time, two cores examine ten thousand small files. A user waits as long without a progress bar.
"""

_OF_SPARK = 0x4C6F6467_6500_8000_8000_000000000000  # "Lodge" in ASCII, in a UUID of version 8
_OF_LODGE = 0x4C6F6467_6501_8000_8000_000000000000
_RANDOM_BITS = 60


def is_of_discovery(response_id: str) -> bool:
    """Return whether a response id has the form that all replicas use for the progress of discovery."""
    return _is_in(response_id, _OF_SPARK) or is_of_lodge_statement(response_id)


def is_of_lodge_statement(response_id: str) -> bool:
    """Return whether a response id has the form for the progress of discovery of a Lodge statement."""
    return _is_in(response_id, _OF_LODGE)


def _is_in(response_id: str, first: int) -> bool:
    return response_id[:20] == str(uuid.UUID(int=first))[:20]


class DiscoveryProgress:
    """Sends the progress of the discovery of one statement.

    Args:
        request: The request of the client.
        write: Sends a response to the client.
        has_started: Whether the client has received progress in an earlier stream.

    Attributes:
        has_started: Whether the client may have received progress.
    """

    def __init__(self, request: Request, write: Callable[[bytes], Awaitable[None]], *, has_started: bool) -> None:
        self.has_started = has_started
        self._request = request
        self._write = write
        self._due_at_seconds = time.monotonic() + (0.0 if has_started else PROGRESS_AFTER_SECONDS)
        self._writing: asyncio.Task[None] | None = None

    async def send(self, response: base_pb2.ExecutePlanResponse) -> None:
        """Send a progress message of a discovery job, if it is due and the client has received the previous one."""
        self._send(response, _OF_SPARK)

    async def send_of_lodge_statement(self, response: base_pb2.ExecutePlanResponse) -> None:
        """Send a progress message, as :meth:`send` does, for a statement that Lodge executes."""
        self._send(response, _OF_LODGE)

    def _send(self, response: base_pb2.ExecutePlanResponse, response_ids: int) -> None:
        if time.monotonic() < self._due_at_seconds or (self._writing is not None and not self._writing.done()):
            return
        client = self._request.read_statement()
        if not client.operation_id:  # the client cannot know the id that Spark will generate
            return
        progress = base_pb2.ExecutePlanResponse(
            session_id=client.session_id,
            operation_id=client.operation_id,
            response_id=str(uuid.UUID(int=response_ids | secrets.randbits(_RANDOM_BITS))),
            server_side_session_id=response.server_side_session_id,
            execution_progress=response.execution_progress,
        )
        self.has_started = True
        self._writing = asyncio.create_task(_write_if_possible(self._write, progress.SerializeToString()))
        self._writing.add_done_callback(retrieve_error)

    async def finish(self) -> None:
        """Wait until the last response is sent. Then the next one can be sent.

        Raises:
            asyncio.CancelledError: If the client has disconnected.
        """
        if self._writing is not None:
            await self._writing


async def _write_if_possible(write: Callable[[bytes], Awaitable[None]], response: bytes) -> None:
    """Send a response, unless the responses in memory exceed a limit. The statement does not depend on it."""
    with suppress(GatewayError):
        await write(response)
