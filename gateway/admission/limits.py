"""The limits of a gateway replica, with defaults for a gateway with 2 GiB of memory."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

import structlog

from gateway.errors import GatewayError, limit_exceeded
from workspace.identifiers import Principal

_MIB = 1024 * 1024
_LOG_PERIOD_SECONDS = 60.0
RETRY_AFTER_SECONDS = 1.0

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class AdmissionLimits:
    """The limits of one gateway replica. Each attribute is also the name of a setting.

    Attributes:
        max_sessions: Maximum number of sessions that the replica serves.
        max_principal_sessions: The same for one principal.
        new_sessions_per_minute: Maximum number of sessions that start in one minute.
        principal_new_sessions_per_minute: The same for one principal.
        max_statements: Maximum number of statements that run at the same time.
        max_principal_statements: The same for one principal.
        max_requests_in_flight: Maximum number of open calls.
        max_principal_requests_in_flight: The same for one principal.
        principal_requests_per_second: Maximum number of calls that a principal starts in one second.
        max_request_bytes_in_flight: Maximum total size of the requests in memory.
        max_principal_request_bytes_in_flight: The same for one principal.
        max_response_bytes_in_flight: Maximum total size of the responses in memory.
        max_principal_response_bytes_in_flight: The same for one principal.
        failed_logins_per_minute: Failed logins from one network address in one minute, above which further
            logins from this address are delayed.
        request_timeout: How many seconds a client may take to send one message.
        max_message_bytes: Maximum size of one message.
    """

    max_sessions: int = 10_000
    max_principal_sessions: int = 1_000
    new_sessions_per_minute: int = 3_000
    principal_new_sessions_per_minute: int = 600
    max_statements: int = 1_000
    max_principal_statements: int = 200
    max_requests_in_flight: int = 4_000
    max_principal_requests_in_flight: int = 1_000
    principal_requests_per_second: int = 500
    max_request_bytes_in_flight: int = 384 * _MIB
    max_principal_request_bytes_in_flight: int = 256 * _MIB
    max_response_bytes_in_flight: int = 384 * _MIB
    max_principal_response_bytes_in_flight: int = 192 * _MIB
    failed_logins_per_minute: int = 60
    request_timeout: float = 60.0
    max_message_bytes: int = 128 * _MIB


class LimitKind(Enum):
    """A kind of limit. The value is the name of its setting, and the label of the metric."""

    SESSIONS = "max_sessions"
    PRINCIPAL_SESSIONS = "max_principal_sessions"
    NEW_SESSIONS = "new_sessions_per_minute"
    PRINCIPAL_NEW_SESSIONS = "principal_new_sessions_per_minute"
    STATEMENTS = "max_statements"
    PRINCIPAL_STATEMENTS = "max_principal_statements"
    REQUESTS = "max_requests_in_flight"
    PRINCIPAL_REQUESTS = "max_principal_requests_in_flight"
    PRINCIPAL_REQUEST_RATE = "principal_requests_per_second"
    REQUEST_BYTES = "max_request_bytes_in_flight"
    PRINCIPAL_REQUEST_BYTES = "max_principal_request_bytes_in_flight"
    RESPONSE_BYTES = "max_response_bytes_in_flight"
    PRINCIPAL_RESPONSE_BYTES = "max_principal_response_bytes_in_flight"
    FAILED_LOGINS = "failed_logins_per_minute"
    REQUEST_SECONDS = "request_timeout"


_WHAT = {
    LimitKind.SESSIONS: "sessions",
    LimitKind.PRINCIPAL_SESSIONS: "sessions of this principal",
    LimitKind.NEW_SESSIONS: "new sessions in one minute",
    LimitKind.PRINCIPAL_NEW_SESSIONS: "new sessions of this principal in one minute",
    LimitKind.STATEMENTS: "statements at the same time",
    LimitKind.PRINCIPAL_STATEMENTS: "statements of this principal at the same time",
    LimitKind.REQUESTS: "requests at the same time",
    LimitKind.PRINCIPAL_REQUESTS: "requests of this principal at the same time",
    LimitKind.PRINCIPAL_REQUEST_RATE: "requests of this principal in one second",
    LimitKind.REQUEST_BYTES: "bytes in requests",
    LimitKind.PRINCIPAL_REQUEST_BYTES: "bytes in requests of this principal",
    LimitKind.RESPONSE_BYTES: "bytes in responses",
    LimitKind.PRINCIPAL_RESPONSE_BYTES: "bytes in responses of this principal",
    LimitKind.FAILED_LOGINS: "failed logins from this address in one minute",
    LimitKind.REQUEST_SECONDS: "seconds for sending a message",
}


class LimitReports:
    """Reports each time that a request exceeds a limit: to the client, in a metric, and in the log.

    The log has at most one event for each kind of limit in a minute.

    Args:
        limits: The limits.
        count: A function that counts the event in a metric.
    """

    def __init__(self, limits: AdmissionLimits, count: Callable[[LimitKind], None] = lambda kind: None) -> None:
        self._limits = limits
        self._count = count
        self._last_logged: dict[LimitKind, float] = {}

    def exceeded(self, kind: LimitKind, principal: Principal | None = None) -> GatewayError:
        """Report that a limit is reached, and return the error for the client."""
        self.report(kind, principal)
        limit = int(getattr(self._limits, kind.value))
        return limit_exceeded(_WHAT[kind], limit, kind.value, RETRY_AFTER_SECONDS)

    def report(self, kind: LimitKind, principal: Principal | None = None) -> None:
        """Report that a limit is reached."""
        self._count(kind)
        now = time.monotonic()
        if now - self._last_logged.get(kind, -_LOG_PERIOD_SECONDS) >= _LOG_PERIOD_SECONDS:
            self._last_logged[kind] = now
            log.warning("limit_reached", setting=kind.value, principal=principal)
