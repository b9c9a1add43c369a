"""Logs and counts failed authentications. A flood of them does not fill the log."""

import time
from collections.abc import Callable, Collection, Sequence
from enum import Enum
from typing import NamedTuple

import structlog

from gateway.auditing.audit import Audit

_WINDOW_SECONDS = 60.0
_EVENTS_PER_WINDOW = 100

log = structlog.get_logger(__name__)


class Problem(Enum):
    """The reason why a client was not authenticated. The value is the label of the metric."""

    MISSING = "missing"
    MALFORMED = "malformed"
    INVALID = "invalid"
    EXPIRED = "expired"
    UNDECIDED = "undecided"

    @property
    def text(self) -> str:
        """The text that the client receives."""
        return _TEXTS[self]


_TEXTS = {
    Problem.MISSING: "it has no credentials",
    Problem.MALFORMED: "the credentials are malformed",
    Problem.INVALID: "the credentials are not valid",
    Problem.EXPIRED: "the credentials have expired",
    Problem.UNDECIDED: "a server does not respond, or a file cannot be read",
}


class Failure(NamedTuple):
    """A failed authentication.

    Attributes:
        problem: Why the client was not authenticated.
        peer: The network address of the client.
        answers: The answer of each method. It contains no token.
        kinds: The kinds of the configured methods.
        kind: The kind of the method that decided. Empty if no method did.
    """

    problem: Problem
    peer: str
    answers: Sequence[str] = ()
    kinds: Collection[str] = ()
    kind: str = ""


class FailureLog:
    """Writes log and audit events about failed authentications, and counts the failures.

    At most 100 log events are written in a minute. Further failures are only counted.

    Args:
        audit: The audit events of the gateway.
        count: Counts a failure for the metrics. The arguments are the kind of the method and the label of the problem.
    """

    def __init__(self, audit: Audit, count: Callable[[str, str], None]) -> None:
        self._audit = audit
        self._count = count
        self._window_began = 0.0
        self._written = 0
        self._omitted = 0

    def add(self, failure: Failure) -> None:
        """Record a failure."""
        self._count(failure.kind, failure.problem.value)
        self._audit.login_failed(reason=failure.problem.text, peer=failure.peer, kinds=failure.kinds)
        if not self._may_write():
            return
        if failure.problem is Problem.UNDECIDED:
            log.error("authentication_unavailable", peer=failure.peer, answers=failure.answers)
        else:
            log.warning(
                "authentication_failed", peer=failure.peer, problem=failure.problem.text, answers=failure.answers
            )

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
