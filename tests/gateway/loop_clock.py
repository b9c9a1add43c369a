"""A clock of the event loop that a test sets forward, so that no test waits for a timeout.

The timeouts of a test can then be so long that they never pass by themselves, even on a slow machine.
"""

import asyncio


class LoopClock:
    """The clock of the running event loop."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self._time = loop.time
        self._skipped_seconds = 0.0
        loop.time = self.time  # type: ignore[method-assign] # the event loop asks for its time through this method

    def time(self) -> float:
        return self._time() + self._skipped_seconds

    async def skip(self, seconds: float) -> None:
        """Set the clock forward, and run the timers that are now due."""
        self._skipped_seconds += seconds
        for _ in range(2):  # the loop adds due timers behind the tasks that are ready
            await asyncio.sleep(0)
