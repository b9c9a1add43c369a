"""Numbers in comments are the guarantees of ``gateway.admission.turns``."""

import asyncio
from collections import Counter

from gateway.admission.turns import Turns
from workspace.identifiers import Principal

MANY = 100


class Calls:
    """Calls that note when they receive their turn.

    Attributes:
        begun: The principals of the calls that have begun, in this order.
        steps: How many calls began in each step of the event loop.
    """

    def __init__(self) -> None:
        self._turns = Turns()
        self._step = 0
        self.begun: list[str] = []
        self.steps: Counter[int] = Counter()

    def start(self, name: str) -> "asyncio.Task[None]":
        return asyncio.create_task(self._call(name))

    async def _call(self, name: str) -> None:
        await self._turns.wait(Principal(name))
        self.begun.append(name)
        self.steps[self._step] += 1

    async def count_steps(self, tasks: "list[asyncio.Task[None]]") -> None:
        """Count the steps of the event loop until all calls have begun."""
        while not all(task.done() for task in tasks):
            await asyncio.sleep(0)
            self._step += 1


async def test_few_calls_begin_in_one_step() -> None:
    calls = Calls()
    await calls.count_steps([calls.start("ann") for _ in range(MANY)])
    assert len(calls.begun) == MANY
    assert max(calls.steps.values()) <= 4  # 1


async def test_call_of_another_principal_waits_for_one_call_of_each() -> None:
    calls = Calls()
    tasks = [calls.start("mallory") for _ in range(MANY)]
    await asyncio.sleep(0)
    before = len(calls.begun)
    await calls.count_steps([calls.start("ann"), *tasks])
    assert calls.begun.index("ann") - before <= 4 + 1  # 2; four had their turns when it asked


async def test_call_that_nobody_precedes_does_not_wait() -> None:
    turns = Turns()
    for _ in range(MANY):
        waiting = turns.wait(Principal("ann"))
        try:
            waiting.send(None)
        except StopIteration:  # 3
            await asyncio.sleep(0)
            continue
        raise AssertionError("The call waits.")


async def test_cancelled_calls_leave_their_places() -> None:
    calls = Calls()
    tasks = [calls.start("ann") for _ in range(MANY)]
    await asyncio.sleep(0)
    for task in tasks[:-1]:
        task.cancel()
    last = calls.start("ann")
    await asyncio.gather(tasks[-1], last)
    await asyncio.gather(*tasks[:-1], return_exceptions=True)
    assert len(calls.begun) <= 4 + 4 + 2
    assert calls.begun[-2:] == ["ann", "ann"]
