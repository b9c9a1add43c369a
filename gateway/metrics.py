"""The gateway's metrics for Prometheus.

Counters count what this process has done, and gauges show its current state. All metrics are listed in
``docs/reference/metrics.md``. Their names are a public interface. No label contains a value that a client chooses, so
the number of time series is bounded.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from pyspark.sql.connect.proto import base_pb2

from gateway.admission.limits import LimitKind

_METHODS = frozenset(method.name for method in base_pb2.DESCRIPTOR.services_by_name["SparkConnectService"].methods)
_OTHER = "other"


@dataclass(frozen=True, slots=True)
class GatewayState:
    """The state of a replica at one moment.

    Attributes:
        sessions: Sessions that the replica serves.
        statements: Running statements.
        requests: Open requests.
        request_bytes: The size of the requests in memory.
        response_bytes: The size of the responses in memory.
        has_lease: Whether the lease is valid.
        lease_renewals: How often the lease was renewed.
        failed_lease_renewals: How often a renewal of the lease failed.
        lease_lapses: How often the lease has lapsed.
        event_loop_lag_seconds: How long the event loop takes to respond.
        unauthenticated_allowed: Whether clients need no credentials.
        failing_authentication_sources: Authentication methods that cannot read their file or reach their server.
        lost_audit_events: The number of events that the audit log has lost.
        certificate_expires_at: When the server certificate expires, in seconds since the epoch. None without TLS.
    """

    sessions: int = 0
    statements: int = 0
    requests: int = 0
    request_bytes: int = 0
    response_bytes: int = 0
    has_lease: bool = False
    lease_renewals: int = 0
    failed_lease_renewals: int = 0
    lease_lapses: int = 0
    event_loop_lag_seconds: float = 0.0
    unauthenticated_allowed: bool = False
    failing_authentication_sources: int = 0
    lost_audit_events: int = 0
    certificate_expires_at: float | None = None


class GatewayMetrics:
    """The counters of a replica.

    Args:
        registry: The registry to which the metrics are added. By default, the metrics are served nowhere.
    """

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        registry = CollectorRegistry() if registry is None else registry
        self._requests = Counter(
            "lodge_gateway_requests",
            "Requests that have ended, by method and gRPC status code.",
            ["method", "code"],
            registry=registry,
        )
        self._denials = Counter(
            "lodge_gateway_denials",
            "Requests that were denied, by authentication method and reason.",
            ["method", "reason"],
            registry=registry,
        )
        self._limits = Counter(
            "lodge_gateway_limits_reached",
            "How often a client has reached a limit, by the setting of the limit.",
            ["setting"],
            registry=registry,
        )
        self._scanned_files = Counter(
            "lodge_gateway_scanned_files",
            "Files of scans, by whether their schema was known or had to be discovered.",
            ["schema"],
            registry=registry,
        )
        for outcome in ("known", "discovered"):
            self._scanned_files.labels(outcome)
        for kind in LimitKind:
            self._limits.labels(kind.value)
        self._request_counters: dict[tuple[str, str], Counter] = {}

    def count_request(self, method: str, code: str) -> None:
        """Count a request that has ended.

        Args:
            method: The name of the method. Unknown methods count as ``other``.
            code: The name of the gRPC status code, such as ``OK``.
        """
        counter = self._request_counters.get((method, code))
        if counter is None:
            if method not in _METHODS:
                method = _OTHER
            counter = self._request_counters[method, code] = self._requests.labels(method, code)
        counter.inc()

    def count_denial(self, method: str, reason: str) -> None:
        """Count a request that was denied.

        Args:
            method: The kind of the authentication method, such as ``jwt``. Empty if no method was responsible.
            reason: The class of the reason: ``missing``, ``malformed``, ``invalid``, ``expired`` or
                ``undecided``.
        """
        self._denials.labels(method or "none", reason).inc()

    def count_scanned_files(self, known: int, discovered: int) -> None:
        """Count the files of a scan, by whether their schema was known or had to be discovered."""
        self._scanned_files.labels("known").inc(known)
        self._scanned_files.labels("discovered").inc(discovered)

    def count_limit(self, kind: LimitKind) -> None:
        """Count that a client has reached a limit."""
        self._limits.labels(kind.value).inc()


class GatewayGauges(Collector):
    """The metrics that show the current state of a replica.

    Args:
        state: A function that returns the current state. None if the replica does not run.
    """

    def __init__(self, state: Callable[[], GatewayState | None]) -> None:
        self._state = state

    def collect(self) -> Iterator[Metric]:
        """Return the metrics. Prometheus calls this method for each scrape."""
        state = self._state()
        if state is None:
            return
        yield _gauge("sessions", "Sessions that this gateway serves.", state.sessions)
        yield _gauge("statements", "Statements that run.", state.statements)
        yield _gauge("requests_in_flight", "Requests that have not ended.", state.requests)
        in_flight = GaugeMetricFamily(
            "lodge_gateway_bytes_in_flight", "Bytes of messages in memory, by direction.", labels=["direction"]
        )
        in_flight.add_metric(["request"], state.request_bytes)
        in_flight.add_metric(["response"], state.response_bytes)
        yield in_flight
        yield _gauge("lease_valid", "1 if the lease of this gateway is valid.", state.has_lease)
        renewals = CounterMetricFamily(
            "lodge_gateway_lease_renewals", "Renewals of the lease, by outcome.", labels=["outcome"]
        )
        renewals.add_metric(["succeeded"], state.lease_renewals)
        renewals.add_metric(["failed"], state.failed_lease_renewals)
        yield renewals
        yield CounterMetricFamily(
            "lodge_gateway_lease_lapses", "How often the lease of this gateway has lapsed.", state.lease_lapses
        )
        yield _gauge(
            "event_loop_lag_seconds", "How long the event loop takes to respond.", state.event_loop_lag_seconds
        )
        yield _gauge("unauthenticated_allowed", "1 if clients need no credentials.", state.unauthenticated_allowed)
        yield _gauge(
            "authentication_sources_failing",
            "Authentication methods that cannot read their file or reach their server.",
            state.failing_authentication_sources,
        )
        yield CounterMetricFamily(
            "lodge_gateway_audit_events_lost",
            "Events that are missing in the audit log, because it could not be written.",
            state.lost_audit_events,
        )
        if state.certificate_expires_at is not None:
            yield _gauge(
                "certificate_expiry_timestamp_seconds",
                "Wall-clock time at which the server certificate expires.",
                state.certificate_expires_at,
            )


def _gauge(name: str, help_text: str, value: float) -> Metric:
    return GaugeMetricFamily(f"lodge_gateway_{name}", help_text, value=value)
