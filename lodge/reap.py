"""The command ``lodge reap``, which runs the reaper as a separate process."""

import asyncio
import signal
import threading
import time
from contextlib import ExitStack
from dataclasses import replace

import structlog
from prometheus_client import CollectorRegistry

from gateway.reloading.last_valid_value import SourceError
from lodge.audit_log import open_audit_log
from lodge.backend_sessions import BackendSessions
from lodge.command_errors import StartError
from lodge.confirmations import confirmation_reader
from lodge.connections import backend_access
from lodge.log_output import LogOutput
from lodge.memory_protection import forbid_core_dumps
from lodge.metrics_endpoint import serve_metrics
from lodge.reaper_process import InheritedRootIds
from lodge.settings import ReapSettings
from lodge.stores import Stores, open_stores
from reaper.audit import ReaperAudit
from reaper.health import Health
from reaper.mass_expiry import MassExpiryRule
from reaper.metrics import Gauges, Metrics
from reaper.operator import Operator, Pace
from reaper.reaper import HOME_ERRORS, Reaper, ReaperDependencies
from workspace.audit_log import AuditLog
from workspace.files.leases import running_replicas
from workspace.workspaces import Workspaces

_SHORTEST_PERIOD_SECONDS = 0.2
_LONGEST_PERIOD_SECONDS = 10.0

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


async def reap(settings: ReapSettings, workspaces: Workspaces, log_output: LogOutput) -> None:
    """Run a reaper until SIGINT or SIGTERM. On SIGHUP, open the file of the audit log again.

    Raises:
        StartError: If a component that the reaper needs cannot be used.
    """
    forbid_core_dumps()
    with open_audit_log(settings) as audit_log:
        process = ReaperProcess(settings, workspaces, audit_log, log_output)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, process.stop)
        loop.add_signal_handler(signal.SIGHUP, audit_log.reopen)
        await asyncio.to_thread(process.run)


def _backend_sessions(settings: ReapSettings) -> BackendSessions:
    backends = {*settings.backend, *settings.principal_backend.values()}
    try:
        return BackendSessions(access=backend_access(settings), backends=backends)
    except SourceError as error:
        raise StartError(str(error)) from error


def pass_period_seconds(settings: ReapSettings) -> float:
    """Return the maximum time between two reaper passes, in seconds.

    The time is a third of the lease duration or of the grace period, whichever is shorter, within fixed limits.
    """
    shorter = min(settings.lease_duration, settings.grace_period).total_seconds()
    return min(max(shorter / 3, _SHORTEST_PERIOD_SECONDS), _LONGEST_PERIOD_SECONDS)


class ReaperProcess:
    """A reaper and its metrics in this process.

    If the home of the workspace moves to another directory, or another home is at its path, the process replaces its
    reaper with a new one, which observes all grace periods again.

    Args:
        settings: The settings of the reaper.
        workspaces: The configured workspaces. The reaper cleans up the default temporary workspace.
        audit_log: The audit log.
        log_output: The output of the log, whose lost lines are a metric.
    """

    def __init__(
        self, settings: ReapSettings, workspaces: Workspaces, audit_log: AuditLog, log_output: LogOutput
    ) -> None:
        self._settings = settings
        self._workspaces = workspaces
        self._stop = threading.Event()
        self._operator: Operator | None = None
        self._registry = CollectorRegistry()
        self._registry.register(log_output)
        self._registry.register(Gauges(lambda: self._operator))
        self._dependencies = ReaperDependencies(
            release=_backend_sessions(settings).release,
            mass_expiry=MassExpiryRule(
                share=settings.mass_expiry_share,
                minimum_sessions=settings.mass_expiry_minimum,
                grace_period_seconds=settings.grace_period.total_seconds(),
            ),
            report_handlers=(Metrics(self._registry).take, ReaperAudit(audit_log).take),
        )

    def stop(self) -> None:
        """Stop the reaper. This method can be called from any thread."""
        self._stop.set()
        operator = self._operator
        if operator is not None:
            operator.stop()

    def run(self) -> None:
        """Run the reaper until :meth:`stop` is called.

        Raises:
            StartError: If a component that the reaper needs cannot be used.
        """
        stores = open_stores(self._settings, self._workspaces, InheritedRootIds())
        with ExitStack() as stack:
            endpoint = Health(lambda: self._operator, self._registry).endpoint()
            stack.enter_context(serve_metrics(self._settings.metrics_listen, endpoint, event="reaper_metrics_served"))
            _log.info(
                "reaper_started",
                workspace=self._workspaces.temporary.name,
                period_seconds=pass_period_seconds(self._settings),
            )
            while not self._stop.is_set():
                try:
                    self._run_operator(stores)
                except HOME_ERRORS as error:
                    _log.warning("reaper_followed_home", reason=str(error))
                    stores = open_stores(self._settings, self._workspaces, InheritedRootIds())
            _log.info("reaper_stopped")

    def _run_operator(self, stores: Stores) -> None:
        if stores.kubernetes is None:
            confirmation = confirmation_reader(self._workspaces)
            dependencies = replace(self._dependencies, confirmation=confirmation, running=running_replicas)
            self._new_operator(stores, dependencies).run()
            return

        from lodge.reap_on_kubernetes import KubernetesReaper  # noqa: PLC0415 - slow to load

        kubernetes = KubernetesReaper(stores.kubernetes, stores, self._settings, self._dependencies)
        kubernetes.run(self._new_operator(kubernetes.stores, kubernetes.dependencies))

    def _new_operator(self, stores: Stores, dependencies: ReaperDependencies) -> Operator:
        settings, period_seconds = self._settings, pass_period_seconds(self._settings)
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
        operator = self._operator = Operator(reaper, pace, monotonic=time.monotonic, log=_log)
        if self._stop.is_set():  # stop() may have been called before the new operator existed
            operator.stop()
        return operator
