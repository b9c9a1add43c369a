"""``lodge reap``: the reaper as a process of its own."""

import asyncio
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace

import structlog
from prometheus_client import CollectorRegistry

from lodge.backend_sessions import BackendSessions
from lodge.confirmations import confirmation_reader
from lodge.errors import StartError
from lodge.settings import ReapSettings
from lodge.stores import Stores, open_stores
from reaper.health import Health, serve_health
from reaper.mass_expiry import MassExpiryRule
from reaper.metrics import Gauges, Metrics
from reaper.operator import Operator, Pace
from reaper.reaper import Reaper, ReaperDependencies
from workspace.root_identities import HomeMovedError
from workspace.workspaces import Workspaces

_SHORTEST_PERIOD_SECONDS = 0.2
_LONGEST_PERIOD_SECONDS = 10.0

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


async def reap(settings: ReapSettings, workspaces: Workspaces) -> None:
    """Works until SIGINT or SIGTERM, then leaves off what is in hand.

    Raises: StartError
    """
    process = ReaperProcess(settings, workspaces)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, process.stop)
    await asyncio.to_thread(process.run)


def period_seconds_of(settings: ReapSettings) -> float:
    """Three passes fit into the shorter of lease duration and grace period."""
    shorter = min(settings.lease_duration, settings.grace_period).total_seconds()
    return min(max(shorter / 3, _SHORTEST_PERIOD_SECONDS), _LONGEST_PERIOD_SECONDS)


class ReaperProcess:
    """An operator with all around it, made anew when the workspace's home moves.

    Args:
        settings: How it works.
        workspaces: Where.
    """

    def __init__(self, settings: ReapSettings, workspaces: Workspaces) -> None:
        self._settings = settings
        self._workspaces = workspaces
        self._stop = threading.Event()
        self._operator: Operator | None = None
        self._backends = BackendSessions()
        self._registry = CollectorRegistry()
        self._metrics = Metrics(self._registry)
        self._registry.register(Gauges(lambda: self._operator))

    def stop(self) -> None:
        """May be called by any thread."""
        self._stop.set()
        operator = self._operator
        if operator is not None:
            operator.stop()

    def run(self) -> None:
        """Raises: StartError"""
        stores = open_stores(self._settings, self._workspaces)
        with ExitStack() as stack:
            if self._settings.metrics_listen is not None:
                stack.enter_context(self._served(self._settings.metrics_listen))
            _log.info(
                "reaper_started",
                workspace=self._workspaces.temporary.name,
                period_seconds=period_seconds_of(self._settings),
            )
            while not self._stop.is_set():
                try:
                    self._operate(stores)
                except HomeMovedError as error:
                    _log.warning("reaper_followed_home", reason=str(error))
                    stores = open_stores(self._settings, self._workspaces)
            _log.info("reaper_stopped")

    def _operate(self, stores: Stores) -> None:
        dependencies = ReaperDependencies(
            release=self._backends.release,
            mass_expiry=self._mass_expiry(),
            report=self._metrics.take,
        )
        if stores.kubernetes is None:
            dependencies = replace(dependencies, confirmation=confirmation_reader(self._workspaces))
            self._run(self._new_operator(stores, dependencies))
            return

        from lodge.reap_on_kubernetes import operate  # noqa: PLC0415 - slow to load

        operate(
            stores.kubernetes,
            stores=stores,
            settings=self._settings,
            dependencies=dependencies,
            new_operator=self._new_operator,
            run=self._run,
        )

    def _run(self, operator: Operator) -> bool:
        """Returns: Whether nothing of it goes on in the background."""
        self._operator = operator
        if self._stop.is_set():  # told so before it could be passed on
            operator.stop()
        return operator.run()

    def _new_operator(
        self,
        stores: Stores,
        dependencies: ReaperDependencies,
        after_pass: Callable[[Reaper], None] = lambda reaper: None,
    ) -> Operator:
        settings, period_seconds = self._settings, period_seconds_of(self._settings)
        reaper = Reaper(
            records=stores.records,
            leases=stores.leases,
            locations=stores.locations,
            lease_duration_seconds=settings.lease_duration.total_seconds(),
            grace_period_seconds=settings.grace_period.total_seconds(),
            storage_period_seconds=period_seconds,
            monotonic=time.monotonic,
            log=_log,
            dependencies=dependencies,
        )
        pace = Pace(period_seconds, settings.removals)
        return Operator(reaper, pace, monotonic=time.monotonic, log=_log, after_pass=after_pass)

    def _mass_expiry(self) -> MassExpiryRule:
        settings = self._settings
        return MassExpiryRule(
            share=settings.mass_expiry_share,
            minimum_sessions=settings.mass_expiry_minimum,
            grace_period_seconds=settings.grace_period.total_seconds(),
        )

    @contextmanager
    def _served(self, address: str) -> Iterator[None]:
        with ExitStack() as stack:
            try:
                health = Health(lambda: self._operator, self._registry)
                listening = stack.enter_context(serve_health(address, health))
            except OSError as error:
                raise StartError(
                    f"Cannot listen at [{address}]: {error}. Give another address with --metrics-listen."
                ) from error
            _log.info("reaper_metrics_served", address=listening)
            yield
