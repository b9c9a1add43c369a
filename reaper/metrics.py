"""The reaper's metrics for Prometheus.

Counters and histograms measure the work of this process, and gauges show its current state. All metrics are listed in
``docs/reference/metrics.md``. Their names are a public interface.
"""

from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from reaper import reports
from reaper.holds import KINDS
from reaper.operator import Operator

_PASS_BUCKETS_SECONDS = (0.01, 0.05, 0.1, 0.5, 1, 5, 10, 60)
_PURGE_BUCKETS_SECONDS = (0.01, 0.1, 1, 10, 60, 600, 3600)


class Metrics:
    """The counters and histograms, which are updated from reports. Thread-safe.

    Args:
        registry: The registry to which the metrics are added.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._sessions_reaped = Counter(
            "lodge_reaper_sessions_reaped",
            "Sessions that the reaper has ended, by reason.",
            ["reason"],
            registry=registry,
        )
        self._removed = Counter(
            "lodge_reaper_removed",
            "Objects that the reaper has removed: session_location, orphan_location, orphan_table, lease.",
            ["what"],
            registry=registry,
        )
        self._changed = Counter(
            "lodge_reaper_records_changed",
            "Records of active sessions from which lost gateways were removed: as holders, or with their writes.",
            ["what"],
            registry=registry,
        )
        self._failures = Counter("lodge_reaper_failures", "Failed attempts, by action.", ["action"], registry=registry)
        self._purge_seconds = Histogram(
            "lodge_reaper_purge_seconds",
            "Time to remove the files of a trash entry.",
            buckets=_PURGE_BUCKETS_SECONDS,
            registry=registry,
        )
        self._pass_seconds = Histogram(
            "lodge_reaper_pass_seconds", "Duration of a pass.", buckets=_PASS_BUCKETS_SECONDS, registry=registry
        )
        self._last_pass = Gauge(
            "lodge_reaper_last_look_timestamp_seconds",
            "Wall-clock time at the end of the last complete pass.",
            registry=registry,
        )
        self._held_back = Gauge(
            "lodge_reaper_held_back", "1 while the reaper is on hold, by kind.", ["kind"], registry=registry
        )
        for kind in KINDS:
            self._held_back.labels(kind).set(0)

    def take(self, report: reports.Report) -> None:
        """Update the metrics with a report."""
        match report:
            case reports.SessionReaped(_, reason, locations):
                self._sessions_reaped.labels(reason).inc()
                self._removed.labels("session_location").inc(len(locations))
            case reports.OrphanRemoved():
                self._removed.labels("orphan_location").inc()
            case reports.OrphanTableRemoved():
                self._removed.labels("orphan_table").inc()
            case reports.LeaseRemoved():
                self._removed.labels("lease").inc()
            case reports.HoldersForgotten():
                self._changed.labels("holders").inc()
            case reports.WritesUndone():
                self._changed.labels("writes").inc()
            case reports.TrashPurged(seconds):
                self._purge_seconds.observe(seconds)
            case reports.ActionFailed(action):
                self._failures.labels(action).inc()
            case reports.HoldBegan(kind):
                self._held_back.labels(kind).set(1)
            case reports.HoldEnded(kind):
                self._held_back.labels(kind).set(0)
            case reports.PassResult(seconds=seconds):
                self._pass_seconds.observe(seconds)
                self._last_pass.set_to_current_time()


class Gauges(Collector):
    """The gauges that show the current state of an operator.

    Args:
        operator: A function that returns the current operator, or None.
    """

    def __init__(self, operator: Callable[[], Operator | None]) -> None:
        self._operator = operator

    def collect(self) -> Iterator[Metric]:
        """Return the gauges. Prometheus calls this method for each scrape."""
        operator = self._operator()
        if operator is None:
            return
        reaper, last_pass = operator.reaper, operator.reaper.last_pass
        yield _gauge("acting", "1 if this reaper may act.", reaper.may_act())
        if last_pass is not None:
            yield _gauge("sessions", "Session records in the last pass.", len(last_pass.snapshot.records))
            yield _gauge("locations", "Session locations in the last pass.", len(last_pass.snapshot.locations))
            yield _gauge("trash_entries", "Trash entries in the last pass.", len(last_pass.snapshot.trash))
            yield _gauge("spared_sessions", "Dead sessions that wait for their adoption.", last_pass.spared)
            yield _gauge("mass_expiry_sessions", "Sessions whose end waits for a confirmation.", len(last_pass.held))
        work = GaugeMetricFamily("lodge_reaper_work", "Pieces of work, by queue and state.", labels=["queue", "state"])
        for name, queue in (("ends", reaper.ends), ("purges", reaper.purges)):
            waiting, running = queue.counts()
            work.add_metric([name, "waiting"], waiting)
            work.add_metric([name, "running"], running)
            work.add_metric([name, "failing"], len(queue.failures()))
        yield work


def _gauge(name: str, help_text: str, value: float) -> Metric:
    return GaugeMetricFamily(f"lodge_reaper_{name}", help_text, value=value)
