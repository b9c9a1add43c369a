"""Turns of principals in the event loop.

The event loop processes everything that is ready in one step before it looks for new messages. If one principal begins
hundreds of calls at the same time, the step of all of them together takes long, and every message of the other
principals waits for it.

Guarantees:

1. In one step of the event loop, at most ``_CALLS_IN_STEP`` calls receive their turn.
2. Principals with waiting calls take turns, and the calls of a principal receive theirs in the order in which they ask.
   A call therefore waits at most for one call of each other principal, and for the earlier calls of its own.
3. A call does not wait if no other call waits, and fewer than ``_CALLS_IN_STEP`` have begun in this step.
"""

import asyncio

from gateway.blocking_work.principal_queues import PrincipalQueues
from workspace.identifiers import Principal

_CALLS_IN_STEP = 4
"""Beginning a call takes about a millisecond. So others wait a few milliseconds."""


class Turns:
    """The turns. They belong to one event loop."""

    def __init__(self) -> None:
        self._begun = 0
        self._is_counting = False
        self._waiting = PrincipalQueues[asyncio.Future[None]]()

    async def wait(self, principal: Principal) -> None:
        """Wait for a turn of a principal."""
        if not self._waiting and self._begun < _CALLS_IN_STEP:
            self._begin()
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.add(principal, turn)
        try:
            await turn
        except asyncio.CancelledError:
            self._waiting.remove(principal, turn)
            raise

    def _begin(self) -> None:
        self._begun += 1
        if not self._is_counting:
            self._is_counting = True
            asyncio.get_running_loop().call_soon(self._begin_step)

    def _begin_step(self) -> None:
        """Give turns to waiting calls, one step after the last turns."""
        self._begun, self._is_counting = 0, False
        while self._waiting and self._begun < _CALLS_IN_STEP:
            principal, turn = next(self._waiting.first())
            self._waiting.serve(principal)
            if not turn.cancelled():
                turn.set_result(None)
                self._begin()
