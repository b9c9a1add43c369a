"""The log of failed authentications, which a flood of them cannot fill."""

import time
from collections.abc import Collection, Sequence

import structlog

from gateway.audit import Audit

_WINDOW_SECONDS = 60.0
_EVENTS_PER_WINDOW = 100

log = structlog.get_logger(__name__)


class FailureLog:
    """Writes log and audit events about clients that were not authenticated.

    At most 100 log events are written in a minute. Further failures are only counted.

    Args:
        audit: The audit events of the gateway.
    """

    def __init__(self, audit: Audit) -> None:
        self._audit = audit
        self._window_began = 0.0
        self._written = 0
        self._omitted = 0

    def refused(self, *, problem: str, peer: str, answers: Sequence[str], kinds: Collection[str]) -> None:
        """Record that a client was refused.

        Args:
            problem: The text that the client receives.
            peer: The network address of the client.
            answers: What each method said. It contains no token.
            kinds: The kinds of the methods that were tried.
        """
        self._audit.login_failed(reason=problem, peer=peer, kinds=kinds)
        if self._may_write():
            log.warning("authentication_failed", peer=peer, problem=problem, answers=answers)

    def undecided(self, *, peer: str, answers: Sequence[str]) -> None:
        """Record that no method could decide about a client."""
        if self._may_write():
            log.error("authentication_unavailable", peer=peer, answers=answers)

    def _may_write(self) -> bool:
        now = time.monotonic()
        if now - self._window_began >= _WINDOW_SECONDS:
            if self._omitted:
                log.warning("authentication_failures_omitted", count=self._omitted)
            self._window_began, self._written, self._omitted = now, 0, 0
        if self._written >= _EVENTS_PER_WINDOW:
            self._omitted += 1
            return False
        self._written += 1
        return True
