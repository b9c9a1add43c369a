"""The answers of a gateway to ``/healthz`` and ``/readyz``.

============  ==========================================================================================================
Path          Answer
============  ==========================================================================================================
``/healthz``  503 while the event loop has not responded for so long that the lease is no longer renewed, otherwise 200.
``/readyz``   503 before the gateway accepts connections, while it stops, while its lease is not valid, and if it has no
              backend, otherwise 200.
============  ==========================================================================================================
"""

from collections.abc import Callable
from dataclasses import dataclass

from gateway.metrics import GatewayState
from workspace.http_endpoint import ProbeAnswer


@dataclass(frozen=True, slots=True)
class GatewayHealth:
    """The answers to probes.

    Attributes:
        state: A function that returns the state of the replica. None if the replica does not accept connections.
        has_backends: Whether a backend is configured.
        unresponsive_limit_seconds: How long the event loop may stall.
    """

    state: Callable[[], GatewayState | None]
    has_backends: bool
    unresponsive_limit_seconds: float

    def alive(self) -> ProbeAnswer:
        """Return the answer of ``/healthz``."""
        state = self.state()
        if state is not None and state.event_loop_lag_seconds > self.unresponsive_limit_seconds:
            return ProbeAnswer(False, ("The gateway does not respond. Its log contains event_loop_stalled.",))
        return ProbeAnswer(True, ("ok",))

    def ready(self) -> ProbeAnswer:
        """Return the answer of ``/readyz``."""
        state = self.state()
        if state is None:
            return ProbeAnswer(False, ("The gateway does not accept connections.",))
        problems = []
        if not state.has_lease:
            problems.append("The lease of the gateway is not valid. Check the storage of session records.")
        if not self.has_backends:
            problems.append("The gateway has no backend.")
        return ProbeAnswer(not problems, tuple(problems) or ("ok",))
