"""The statements whose scans are being planned.

While the scans of a statement are planned, the backend does not know its operation. Therefore the gateway itself must
end the planning if the client interrupts the statement, or if the gateway stops.

Guarantees:

1. An interrupt by operation id, by tag or of all operations ends the planning with the same error as in Spark.
2. When the gateway hands over its statements, the planning ends with an error after which the client sends the
   statement again, to another gateway. After progress, the client reattaches (:mod:`gateway.scans.lost_discoveries`).
"""

import asyncio
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pyspark.sql.connect.proto import base_pb2

from gateway.blocking_work.current_work import noted
from gateway.errors import CanceledError
from gateway.messages.requests import SessionKey
from gateway.messages.statement_request import StatementRequest
from gateway.operations.drain import Drain
from gateway.operations.operations import is_meant

_Result = TypeVar("_Result")


@dataclass(slots=True, eq=False)
class _Planning:
    """A planning that runs.

    Attributes:
        session: The session of the statement.
        request: The statement.
        task: The planning.
        is_interrupted: Whether the client has interrupted the statement.
    """

    session: SessionKey
    request: StatementRequest
    task: "asyncio.Task[Any]"
    is_interrupted: bool = field(default=False)

    def matches(self, interrupt: base_pb2.InterruptRequest) -> bool:
        return is_meant(interrupt, self.request.operation_id, self.request.tags)


class Plannings:
    """All plannings of a replica.

    Args:
        drain: What the gateway hands over when it stops.
    """

    def __init__(self, drain: Drain) -> None:
        self._drain = drain
        self._running: set[_Planning] = set()

    async def run(self, session: SessionKey, request: StatementRequest, work: Coroutine[Any, Any, _Result]) -> _Result:
        """Plan the scans of a statement.

        Args:
            session: The session of the statement.
            request: The statement.
            work: The planning.

        Returns:
            The result of the planning.

        Raises:
            CanceledError: If the client interrupts the statement.
            GatewayStoppingError: If the gateway stops.
        """
        task = asyncio.create_task(noted(work))
        planning = _Planning(session, request, task)
        self._running.add(planning)
        try:
            with self._drain.handing_over(task.cancel):
                return await task
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if not planning.is_interrupted or (current is not None and current.cancelling()):
                raise
            raise CanceledError from None
        finally:
            self._running.discard(planning)

    async def interrupt(self, session: SessionKey, interrupt: base_pb2.InterruptRequest) -> Sequence[str]:
        """End the plannings of a session that match a client's request. Return the ids of their operations."""
        found = [each for each in self._running if each.session == session and each.matches(interrupt)]
        for planning in found:
            planning.is_interrupted = True
            planning.task.cancel()
        if found:
            await asyncio.wait([planning.task for planning in found])
        return [planning.request.operation_id for planning in found if planning.request.operation_id]
