"""The audit events of a gateway: who did what, and with which outcome.

There is one method for each event. ``docs/reference/audit-log.md`` lists all events and fields, which are an interface.
:class:`workspace.audit_log.AuditLog` writes the events.

Guarantees:

1. No method blocks or raises.
2. A flood of failed logins or refused statements does not fill the disk: see :mod:`gateway.auditing.repeated_events`.
3. An event contains the text of a statement only if ``log_query_text`` is set, and never contains a token.
"""

import time
from collections.abc import Collection, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import NamedTuple

from gateway.auditing.repeated_events import RepeatedEvents
from gateway.errors import LIMIT_EXCEEDED
from workspace.audit_log import AuditLog

OTHER_LOGINS = "further failed logins"
"""The reason of an event about failed logins of many network addresses."""

GATEWAY = "gateway"
"""The value of the field ``by`` if the gateway itself causes an event."""


class Caller(NamedTuple):
    """The client whose request is being handled.

    Attributes:
        principal: The principal.
        groups: The groups of the principal.
        method: The kind of the method that authenticated the principal. Empty if no method is configured.
        peer: The network address of the client.
        session: The client session id.
        operation: The id of the operation. Empty if the request does not concern an operation.
    """

    principal: str = ""
    groups: Collection[str] = ()
    method: str = ""
    peer: str = ""
    session: str = ""
    operation: str = ""


NOBODY = Caller()
_caller: ContextVar[Caller] = ContextVar("caller", default=NOBODY)


@dataclass(frozen=True, slots=True)
class Contents:
    """What a statement contains, as far as Lodge reads it.

    Attributes:
        keyword: The first word of the SQL text in upper case. Empty if the statement has no SQL text.
        tables: The names of tables and views, as the statement spells them.
        files: The paths of files and directories.
        query_text: The SQL text. Empty if the text is not logged.
        is_complete: Whether Lodge has read the whole statement.
    """

    keyword: str = ""
    tables: Sequence[str] = ()
    files: Sequence[str] = ()
    query_text: str = ""
    is_complete: bool = True


class Outcome(NamedTuple):
    """How a statement ended.

    Attributes:
        name: ``succeeded``, ``failed`` or ``canceled``.
        condition: The error condition. Empty if the statement succeeded.
    """

    name: str
    condition: str = ""


SUCCEEDED = Outcome("succeeded")
REFUSED = "refused"
"""The outcome of a statement that was refused because of a limit."""


@dataclass(slots=True)
class Statement:
    """A statement, for its audit event.

    Attributes:
        caller: The client that sent the statement.
        kind: The kind of the plan, such as ``sql_command`` or ``read``.
        is_own: Whether Lodge executes the statement.
        begun_seconds: The monotonic time at which the gateway received the statement.
        contents: What the statement names. None while it has not been read.
        rows: The number of rows in the response.
        response_bytes: The number of bytes in the response.
    """

    caller: Caller
    kind: str
    is_own: bool = False
    begun_seconds: float = field(default_factory=time.monotonic)
    contents: Contents | None = None
    rows: int = 0
    response_bytes: int = 0


class Audit:
    """Writes the audit events of a gateway.

    Args:
        log: The audit log. By default, no events are written.

    Attributes:
        replica: The name of the replica, which is part of all events.
    """

    def __init__(self, log: AuditLog | None = None) -> None:
        self.log = AuditLog() if log is None else log
        self.replica = ""
        self._logins = RepeatedEvents(self._write_login_failed, _Login(OTHER_LOGINS, "", ()))
        self._refusals = RepeatedEvents(self._write_statement_refused, _Refusal(NOBODY, LIMIT_EXCEEDED, ""))

    @staticmethod
    def caller() -> Caller:
        """Return the client whose request is being handled. Outside of requests, all its fields are empty."""
        return _caller.get()

    @staticmethod
    def set_caller(caller: Caller) -> None:
        """Set the client whose request is being handled. All later events of this task contain it."""
        _caller.set(caller)

    def close(self) -> None:
        """Write what was counted and not written yet. Does not close the audit log."""
        self._logins.flush()
        self._refusals.flush()

    def login_failed(self, *, reason: str, peer: str, kinds: Collection[str] = ()) -> None:
        """Record that a client was not authenticated.

        The first failure of a host is written at once. Further failures of this host with the same reason are counted
        for a minute, and then written as one event. If many hosts fail, further hosts are counted together.

        Args:
            reason: Why the client was not authenticated. The text must not contain a token.
            peer: The network address of the client.
            kinds: The kinds of the configured authentication methods.
        """
        if self.log.is_enabled:
            self._logins.add((_host(peer), reason), _Login(reason, peer, tuple(sorted(kinds))))

    def session_opened(self, *, session: str, principal: str, location: str, backend: str, adopted: bool) -> None:
        """Record that this replica has started to serve a session.

        Args:
            session: The client session id.
            principal: The principal of the session.
            location: The UUID of the session.
            backend: The address of the backend.
            adopted: Whether the session existed before.
        """
        self._write_session(
            "session_opened", session, principal, {"location": location, "backend": backend, "adopted": adopted}
        )

    def session_closed(self, *, session: str, principal: str, location: str, reason: str) -> None:
        """Record that a session was ended by a client, by its backend or by a stopping gateway.

        Args:
            session: The client session id.
            principal: The principal of the session.
            location: The UUID of the session.
            reason: Why the session was ended.
        """
        self._write_session("session_closed", session, principal, {"location": location, "reason": reason})

    def session_expired(self, *, session: str, principal: str, location: str, reason: str) -> None:
        """Record that a session was ended because no client used it.

        Args:
            session: The client session id.
            principal: The principal of the session.
            location: The UUID of the session.
            reason: Why the session was ended.
        """
        fields = {"location": location, "reason": reason}
        self._write_session("session_expired", session, principal, fields, NOBODY)

    def statement_finished(self, statement: Statement, outcome: Outcome) -> None:
        """Record how a statement ended. There is at most one such event for each operation at this replica."""
        self._write_statement(
            "statement_finished", statement, {"outcome": outcome.name, "condition": outcome.condition}
        )

    def statement_left(self, statement: Statement, *, reason: str) -> None:
        """Record that this replica will not see the end of a statement.

        Args:
            statement: The statement.
            reason: Why the end is not visible here, for example because the client continued at another replica.
        """
        self._write_statement("statement_left", statement, {"reason": reason})

    def statement_refused(self, caller: Caller, *, condition: str, limit: str) -> None:
        """Record that a statement was refused because of a limit, before it began.

        The first refusal of a principal is written at once. Further refusals of this principal because of the same
        limit are counted for a minute, and then written as one event. If many principals are refused, further
        principals are counted together.

        Args:
            caller: The client that sent the statement.
            condition: The error condition.
            limit: The setting that contains the limit.
        """
        if self.log.is_enabled:
            who = caller.principal or _host(caller.peer)
            self._refusals.add((who, limit), _Refusal(caller, condition, limit))

    def access_refused(self, *, target: str, name: str, reason: str) -> None:
        """Record that a client may not access a table, a file or another object.

        Args:
            target: The kind of the object: ``table`` or ``file``.
            name: The name or the path of the object.
            reason: Why the access was refused.
        """
        self._write("access_refused", {"target": target, "name": name, "reason": reason})

    def administrative_act(
        self, act: str, *, target: str = "", owner: str = "", details: Mapping[str, object] | None = None
    ) -> None:
        """Record an act that needs the rights of an administrator or an operator.

        Args:
            act: The act, such as ``list_sessions``, ``close_session``, ``drop_table`` or ``reload_configuration``.
            target: The object of the act.
            owner: The principal to whom the object belongs.
            details: Further fields of the act.
        """
        self._write("administrative_act", {"act": act, "target": target, "owner": owner, **(details or {})})

    def _write(self, event: str, fields: Mapping[str, object], caller: Caller | None = None) -> None:
        if not self.log.is_enabled:
            return
        by = _caller.get() if caller is None else caller
        self.log.write(
            event,
            {
                "principal": by.principal,
                "groups": lambda: sorted(by.groups),
                "method": by.method,
                "peer": by.peer,
                "session": by.session,
                "operation": by.operation,
                "replica": self.replica,
                **fields,
            },
        )

    def _write_session(
        self, event: str, session: str, principal: str, fields: Mapping[str, object], caller: Caller | None = None
    ) -> None:
        """Write an event about a session, which may belong to another principal than the caller."""
        by = _caller.get() if caller is None else caller
        actor = by.principal or GATEWAY
        self._write(event, {**fields, "principal": principal, "session": session, "by": actor}, by)

    def _write_statement(self, event: str, statement: Statement, fields: Mapping[str, object]) -> None:
        if not self.log.is_enabled:
            return
        duration_seconds = round(time.monotonic() - statement.begun_seconds, 6)

        def contents() -> Contents:  # called by the writing thread, after the thread has read the statement
            return statement.contents or Contents(is_complete=False)

        self._write(
            event,
            {
                "kind": statement.kind,
                "executed_by": "lodge" if statement.is_own else "backend",
                **fields,
                "duration_seconds": duration_seconds,
                "rows": statement.rows,
                "bytes": statement.response_bytes,
                "keyword": lambda: contents().keyword,
                "tables": lambda: contents().tables,
                "files": lambda: contents().files,
                "names_complete": lambda: contents().is_complete,
                "query_text": lambda: contents().query_text,
            },
            statement.caller,
        )

    def _write_login_failed(self, login: "_Login", count: int) -> None:
        self._write("login_failed", {"reason": login.reason, "kinds": login.kinds, "peer": login.peer, "count": count})

    def _write_statement_refused(self, refusal: "_Refusal", count: int) -> None:
        caller = refusal.caller
        if count > 1:  # the refusals can concern several sessions
            caller = caller._replace(session="", operation="")
        fields = {"outcome": REFUSED, "condition": refusal.condition, "limit": refusal.limit, "count": count}
        self._write("statement_refused", fields, caller)


class _Login(NamedTuple):
    reason: str
    peer: str
    kinds: Sequence[str]


class _Refusal(NamedTuple):
    caller: Caller
    condition: str
    limit: str


def _host(peer: str) -> str:
    """Return the part of a gRPC peer before the port."""
    return peer.rpartition(":")[0]
