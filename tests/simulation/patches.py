"""Replacements for the clocks, random names, threads and sockets of the real code.

The code takes these from their modules, not as arguments. The simulation therefore patches the modules while it runs.
"""

import asyncio
import random
import sys
import uuid
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

import structlog
import tenacity.wait

import gateway.backends.backend_operations
import gateway.server
from gateway.tables.statement_context import Execution
from gateway.tables.undo import Undo
from tests.simulation import threads
from tests.simulation.gateways import ModelListener
from tests.simulation.invariants import InvariantChecker
from tests.simulation.schedule import Schedule
from workspace.records import PendingChange, TemporaryTable

_THREADED_MODULES = (
    "reaper.cached_records",
    "reaper.snapshot_reader",
    "reaper.operator",
    "reaper.reaper",
    "reaper.work_queue",
    "workspace.background_thread",
    "workspace.record_cache",
)
"""The modules that use :mod:`threading`. All threads start in :mod:`workspace.background_thread`."""


@dataclass(frozen=True, slots=True)
class Replacements:
    """What replaces parts of the gateway whose code runs.

    Attributes:
        server: Creates its gRPC server.
        backends: Creates its backends.
        adopter: Creates its adopter.
    """

    server: Callable[[], Any]
    backends: Callable[..., Any]
    adopter: Callable[..., Any]


@contextmanager
def install_model(schedule: Schedule, checker: InvariantChecker, replacements: Replacements) -> Iterator[None]:
    """Patch the real code so that it runs in the simulation, within a block.

    Args:
        schedule: Gives the time and the random choices.
        checker: Receives each log event.
        replacements: Create what replaces parts of a gateway.
    """
    rng = schedule.random
    old_config = structlog.get_config()
    threads.activate(schedule)
    with ExitStack() as stack:
        for target, name, replacement in (
            ("time", "monotonic", lambda: schedule.current_process().monotonic()),
            ("time", "sleep", schedule.wait),
            ("uuid", "uuid4", lambda: uuid.UUID(int=rng.getrandbits(128), version=4)),
            ("secrets", "token_hex", lambda size=16: f"{rng.getrandbits(8 * size):0{2 * size}x}"),
        ):
            stack.enter_context(mock.patch(f"{target}.{name}", replacement))
        for module in _THREADED_MODULES:
            stack.enter_context(mock.patch(f"{module}.threading", threads.THREADING))
        stack.enter_context(
            mock.patch.object(gateway.server, "Listener", lambda *_: ModelListener(replacements.server()))
        )
        stack.enter_context(mock.patch.object(gateway.server, "Backends", replacements.backends))
        stack.enter_context(mock.patch.object(gateway.server, "Adopter", replacements.adopter))
        for user in (tenacity.wait, gateway.backends.backend_operations):
            stack.enter_context(mock.patch.object(user, "random", _Random(rng)))
        stack.enter_context(mock.patch.object(Undo, "undo", _noted(Undo.undo, checker)))
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
            structlog.configure(**old_config)
            threads.deactivate()


def _close_generator(generator: Any) -> None:
    """Close an abandoned asynchronous generator, unless its process has died."""
    loop = asyncio._get_running_loop()
    if loop is not None:
        loop.call_soon(lambda: loop.create_task(generator.aclose()))


def _noted(undo: Callable[..., Any], checker: InvariantChecker) -> Callable[..., Any]:
    def noted(self: Undo, execution: Execution, table: TemporaryTable, change: PendingChange) -> Any:
        checker.on_undo(change.operation_id)
        return undo(self, execution, table, change)

    return noted


class _Random:
    """The part of :mod:`random` that pauses use."""

    def __init__(self, rng: random.Random) -> None:
        self.uniform = rng.uniform


def _forward_to(checker: InvariantChecker) -> Callable[..., Any]:
    def forward(logger: object, method: str, event: MutableMapping[str, Any]) -> Any:
        checker.on_log_event(event)
        raise structlog.DropEvent

    return forward
