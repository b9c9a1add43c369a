"""What the real code reaches for by itself, exchanged for the model's while a simulation runs.

Why it exists: clocks, random names, threads and sockets are not handed to the code; it takes them from their modules.
Here these modules are given others, and given back.
"""

import asyncio
import random
import sys
import uuid
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import Any
from unittest import mock

import structlog
import tenacity.wait

import gateway.server
from tests.simulation import threads
from tests.simulation.invariants import Ledger
from tests.simulation.schedule import Schedule

_THREADED = (
    "gateway.sessions.record_watch",
    "reaper.cached_records",
    "reaper.snapshot_reader",
    "reaper.operator",
    "reaper.reaper",
    "reaper.work_queue",
    "workspace.record_cache",
)
"""The modules that make threads, or what threads wait for."""


@contextmanager
def wired(schedule: Schedule, ledger: Ledger, servers: Callable[[], Any], links: Callable[..., Any]) -> Iterator[None]:
    """While the model's world is the only one.

    Args:
        schedule: Whose time is the time.
        ledger: Told of each line of the log.
        servers: Makes what the gateway takes for a gRPC server.
        links: Makes what the gateway takes for its backends.
    """
    chance = schedule.random
    before = structlog.get_config()
    threads.begin(schedule)
    with ExitStack() as stack:
        for target, name, instead in (
            ("time", "monotonic", lambda: schedule.current().monotonic()),
            ("time", "sleep", schedule.wait),
            ("uuid", "uuid4", lambda: uuid.UUID(int=chance.getrandbits(128), version=4)),
            ("secrets", "token_hex", lambda size=16: f"{chance.getrandbits(8 * size):0{2 * size}x}"),
        ):
            stack.enter_context(mock.patch(f"{target}.{name}", instead))
        for module in _THREADED:
            stack.enter_context(mock.patch(f"{module}.threading", threads.THREADING))
        stack.enter_context(mock.patch.object(gateway.server, "aio", SimpleNamespace(server=servers)))
        stack.enter_context(mock.patch.object(gateway.server, "Backends", links))
        stack.enter_context(mock.patch.object(tenacity.wait, "random", _Uniform(chance)))
        structlog.configure(
            processors=[_told(ledger)],
            wrapper_class=structlog.make_filtering_bound_logger(20),
            logger_factory=structlog.ReturnLoggerFactory(),
            cache_logger_on_first_use=False,
        )
        hooks = sys.get_asyncgen_hooks()
        sys.set_asyncgen_hooks(firstiter=None, finalizer=_closed_later)
        try:
            yield
        finally:
            sys.set_asyncgen_hooks(*hooks)
            structlog.configure(**before)
            threads.end()


def _closed_later(generator: Any) -> None:
    """What asyncio does with an asynchronous generator that nobody follows; of a process that is no more, nothing."""
    loop = asyncio._get_running_loop()
    if loop is not None:
        loop.call_soon(lambda: loop.create_task(generator.aclose()))


class _Uniform:
    """What tenacity asks of :mod:`random`."""

    def __init__(self, chance: random.Random) -> None:
        self.uniform = chance.uniform


def _told(ledger: Ledger) -> Callable[..., Any]:
    def tell(logger: object, method: str, event: MutableMapping[str, Any]) -> Any:
        ledger.logged(event)
        raise structlog.DropEvent

    return tell
