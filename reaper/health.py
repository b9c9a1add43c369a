"""The HTTP endpoints ``/healthz``, ``/readyz`` and ``/metrics``.

============
==========================================================================================================
Path          Response
============
==========================================================================================================
``/healthz``  503 while a pass is stuck, otherwise 200.
``/readyz``   503 before the first complete pass, and while the reaper cannot read records or storage, otherwise 200.
              The body lists all holds. A mass expiry does not make the reaper unready, because it waits for a person.
``/metrics``  The metrics for Prometheus.
============
==========================================================================================================
"""

from collections.abc import Callable
from dataclasses import dataclass

from prometheus_client import CollectorRegistry

from reaper.holds import MASS_EXPIRY
from reaper.operator import Operator
from workspace.http_endpoint import HttpEndpoint, ProbeAnswer


@dataclass(frozen=True, slots=True)
class Health:
    """The answers to probes and metric requests.

    Attributes:
        operator: A function that returns the current operator, or None.
        registry: The registry of the reaper's metrics.
    """

    operator: Callable[[], Operator | None]
    registry: CollectorRegistry

    def endpoint(self) -> HttpEndpoint:
        """Return the HTTP endpoint of the reaper."""
        return HttpEndpoint(self.alive, self.ready, self.registry)

    def alive(self) -> ProbeAnswer:
        """Return the answer of ``/healthz``."""
        operator = self.operator()
        if operator is not None and operator.is_stuck():
            return ProbeAnswer(False, ("A pass of the reaper is stuck. Check the storage.",))
        return ProbeAnswer(True, ("ok",))

    def ready(self) -> ProbeAnswer:
        """Return the answer of ``/readyz``."""
        operator = self.operator()
        if operator is None:
            return ProbeAnswer(False, ("starting",))
        reasons = operator.reaper.holds.reasons
        lines = [f"{kind}: {reason}" for kind, reason in sorted(reasons.items())]
        if not operator.has_completed_pass() and not lines:
            lines = ["no pass has completed yet"]
        role = "acting" if operator.reaper.may_act() else "standing by"
        is_ready = operator.has_completed_pass() and reasons.keys() <= {MASS_EXPIRY}
        return ProbeAnswer(is_ready, (role, *lines))
