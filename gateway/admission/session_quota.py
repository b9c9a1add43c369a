"""The quota of sessions.

Guarantees:

1. A session that already exists is never refused. It counts for the quota, even if the quota is exceeded.
2. A session that is about to start counts at once, so that concurrent requests cannot exceed the quota together.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from gateway.admission.limits import AdmissionLimits, LimitKind, LimitReports
from gateway.admission.rates import per_minute
from gateway.errors import GatewayError
from workspace.identifiers import Principal


class SessionQuota:
    """Counts the sessions that this replica serves or opens.

    Args:
        limits: The limits. By default, the default limits.
        reports: Reports exceeded limits.
    """

    def __init__(self, limits: AdmissionLimits | None = None, reports: LimitReports | None = None) -> None:
        self._limits = limits = limits or AdmissionLimits()
        self._reports = reports or LimitReports(limits)
        self._count = 0
        self._by_principal: Counter[Principal] = Counter()
        self._rate = per_minute(limits.new_sessions_per_minute)
        self._principal_rate = per_minute(limits.principal_new_sessions_per_minute)

    def add(self, principal: Principal) -> None:
        """Count a session that this replica serves."""
        self._count += 1
        self._by_principal[principal] += 1

    def remove(self, principal: Principal) -> None:
        """Stop counting a session."""
        self._count -= 1
        self._by_principal[principal] -= 1
        if not self._by_principal[principal]:
            del self._by_principal[principal]

    @contextmanager
    def reserve(self, principal: Principal) -> Iterator[bool]:
        """Count a session while this replica opens it.

        Yields:
            Whether the session may start, if it does not exist yet.
        """
        self.add(principal)
        try:
            yield self._find_exceeded(principal, opening=0) is None
        finally:
            self.remove(principal)

    def refuse(self, principal: Principal) -> GatewayError:
        """Report that a session of a principal may not start, and return the error for the client."""
        return self._reports.exceeded(self._find_exceeded(principal, opening=1) or LimitKind.SESSIONS, principal)

    def count_start(self, principal: Principal) -> None:
        """Count a session that has started."""
        self._principal_rate.hit(principal)
        self._rate.hit("")

    def _find_exceeded(self, principal: Principal, opening: int) -> LimitKind | None:
        limits = self._limits
        if self._by_principal.get(principal, 0) + opening > limits.max_principal_sessions:
            return LimitKind.PRINCIPAL_SESSIONS
        if self._count + opening > limits.max_sessions:
            return LimitKind.SESSIONS
        if not self._principal_rate.has_room(principal):
            return LimitKind.PRINCIPAL_NEW_SESSIONS
        return None if self._rate.has_room("") else LimitKind.NEW_SESSIONS
