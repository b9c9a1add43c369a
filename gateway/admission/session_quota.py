"""The quota of sessions.

Guarantees:

1. A session that already exists is never refused. It counts for the quota, even if the quota is exceeded.
2. A session that is about to start counts at once, so that concurrent requests cannot exceed the quota together.
"""

from collections import Counter

from gateway.admission.limits import AdmissionLimits, LimitKind, LimitReports
from gateway.admission.rates import per_minute
from gateway.errors import GatewayError
from workspace.identifiers import Principal


class SessionQuota:
    """Counts the sessions that this replica serves or opens.

    Args:
        limits: The limits.
        reports: Reports exceeded limits.
    """

    def __init__(self, limits: AdmissionLimits, reports: LimitReports) -> None:
        self._limits = limits
        self._reports = reports
        self._count = 0
        self._by_principal: Counter[Principal] = Counter()
        self._rate = per_minute(limits.new_sessions_per_minute)
        self._principal_rate = per_minute(limits.principal_new_sessions_per_minute)

    def add(self, principal: Principal) -> None:
        """Count a session that this replica serves or is about to open."""
        self._count += 1
        self._by_principal[principal] += 1

    def remove(self, principal: Principal) -> None:
        """Stop counting a session."""
        self._count -= 1
        self._by_principal[principal] -= 1
        if not self._by_principal[principal]:
            del self._by_principal[principal]

    def find_refusal(self, principal: Principal) -> GatewayError | None:
        """Return why a session may not start, or None if it may. Call :meth:`add` for the session first."""
        limits = self._limits
        refusing: LimitKind | None = None
        if self._by_principal[principal] > limits.max_principal_sessions:
            refusing = LimitKind.PRINCIPAL_SESSIONS
        elif self._count > limits.max_sessions:
            refusing = LimitKind.SESSIONS
        elif not self._principal_rate.has_room(principal):
            refusing = LimitKind.PRINCIPAL_NEW_SESSIONS
        elif not self._rate.has_room(""):
            refusing = LimitKind.NEW_SESSIONS
        return None if refusing is None else self._reports.exceeded(refusing, principal)

    def count_start(self, principal: Principal) -> None:
        """Count a session that has started."""
        self._principal_rate.hit(principal)
        self._rate.hit("")
