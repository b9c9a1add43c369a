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
from tests.simulation.invariants import InvariantChecker
from tests.simulation.schedule import Schedule

_THREADED_MODULES = (
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
def install_model(
    schedule: Schedule, checker: InvariantChecker, servers: Callable[[], Any], backend_channels: Callable[..., Any]
) -> Iterator[None]:
    """While the model's world is the only one.

    Args:
        schedule: Whose time is the time.
        ledger: Told of each line of the log.
        servers: Makes what the gateway takes for a gRPC server.
        links: Makes what the gateway takes for its backends.
    """
    chance = schedule.random
    before = structlog.get_config()
    threads.activate(schedule)
    with ExitStack() as stack:
        for target, name, replacement in (
            ("time", "monotonic", lambda: schedule.current_process().monotonic()),
            ("time", "sleep", schedule.wait),
            ("uuid", "uuid4", lambda: uuid.UUID(int=chance.getrandbits(128), version=4)),
            ("secrets", "token_hex", lambda size=16: f"{chance.getrandbits(8 * size):0{2 * size}x}"),
        ):
            stack.enter_context(mock.patch(f"{target}.{name}", replacement))
        for module in _THREADED_MODULES:
            stack.enter_context(mock.patch(f"{module}.threading", threads.THREADING))
        stack.enter_context(mock.patch.object(gateway.server, "aio", SimpleNamespace(server=servers)))
        stack.enter_context(mock.patch.object(gateway.server, "Backends", backend_channels))
        stack.enter_context(mock.patch.object(tenacity.wait, "random", _TenacityRandom(chance)))
        structlog.configure(
            processors=[_forward_to(checker)],
            wrapper_class=structlog.make_filtering_bound_logger(20),
            logger_factory=structlog.ReturnLoggerFactory(),
            cache_logger_on_first_use=False,
        )
        hooks = sys.get_asyncgen_hooks()
        sys.set_asyncgen_hooks(firstiter=None, finalizer=_close_generator)
        try:
            yield
        finally:
            sys.set_asyncgen_hooks(*hooks)
            structlog.configure(**before)
            threads.deactivate()


def _close_generator(generator: Any) -> None:
    """What asyncio does with an asynchronous generator that nobody follows; of a process that is no more, nothing."""
    loop = asyncio._get_running_loop()
    if loop is not None:
        loop.call_soon(lambda: loop.create_task(generator.aclose()))


class _TenacityRandom:
    """What tenacity asks of :mod:`random`."""

    def __init__(self, chance: random.Random) -> None:
        self.uniform = chance.uniform


def _forward_to(checker: InvariantChecker) -> Callable[..., Any]:
    def forward(logger: object, method: str, event: MutableMapping[str, Any]) -> Any:
        checker.on_log_event(event)
        raise structlog.DropEvent

    return forward
