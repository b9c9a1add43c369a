"""The audit events of a gateway."""

import asyncio
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gateway.auditing import repeated_events
from gateway.auditing.audit import NOBODY, Audit, Caller
from tests.gateway.loop_clock import LoopClock
from workspace.audit_log import AuditLog


class Log:
    def __init__(self, path: Path) -> None:
        self._path = path
        self.audit = Audit(AuditLog(str(path)))
        self.audit.replica = "gateway-1"
        Audit.set_caller(NOBODY)

    def events(self) -> list[dict[str, Any]]:
        self.audit.close()
        self.audit.log.close()
        events = [json.loads(line) for line in self._path.read_text().splitlines()]
        for event in events:
            assert event.pop("timestamp")
            assert event.pop("replica") == "gateway-1"
        return events


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path / "audit.log")


async def test_event_contains_the_caller(log: Log) -> None:
    Audit.set_caller(Caller("ada", frozenset({"b", "a"}), "jwt", "ipv4:10.0.0.1:1", "s", "op"))
    log.audit.access_refused(target="file", name="/secret", reason="below the temporary workspace")
    assert log.events() == [
        {
            "event": "access_refused",
            "principal": "ada",
            "groups": ["a", "b"],
            "method": "jwt",
            "peer": "ipv4:10.0.0.1:1",
            "session": "s",
            "operation": "op",
            "target": "file",
            "name": "/secret",
            "reason": "below the temporary workspace",
        }
    ]


async def test_caller_belongs_to_its_task(log: Log) -> None:
    async def request(principal: str) -> None:
        Audit.set_caller(Caller(principal))
        await asyncio.sleep(0)
        log.audit.administrative_act("list_sessions")

    async with asyncio.TaskGroup() as group:
        for principal in ("ada", "bob"):
            group.create_task(request(principal))
    log.audit.administrative_act("reload_configuration")
    assert [event.get("principal") for event in log.events()] == ["ada", "bob", None]


async def test_session_of_another_principal_names_both(log: Log) -> None:
    Audit.set_caller(Caller("admin", session="own"))
    log.audit.session_closed(session="s", principal="ada", location="l", reason="closed by an administrator")
    (event,) = log.events()
    assert (event["principal"], event["session"], event["by"]) == ("ada", "s", "admin")


async def test_idle_session_is_ended_by_the_gateway(log: Log) -> None:
    log.audit.session_expired(session="s", principal="ada", location="l", reason="idle")
    assert log.events() == [
        {
            "event": "session_expired",
            "principal": "ada",
            "session": "s",
            "location": "l",
            "reason": "idle",
            "by": "gateway",
        }
    ]


async def test_flood_of_failed_logins_of_one_host_is_two_events(log: Log) -> None:
    for port in range(10_000):
        log.audit.login_failed(reason="it has no credentials", peer=f"ipv4:10.0.0.1:{port}", kinds={"jwt"})
    first, others = log.events()
    assert (first["count"], first["peer"], first["kinds"]) == (1, "ipv4:10.0.0.1:0", ["jwt"])
    assert (others["count"], others["peer"]) == (9_999, "ipv4:10.0.0.1:9999")


async def test_flood_of_failed_logins_of_many_hosts_is_bounded(log: Log) -> None:
    for host in range(10_000):
        log.audit.login_failed(reason="it has no credentials", peer=f"ipv6:[::{host:x}]:1")
    *first, others = log.events()
    assert {event["count"] for event in first} == {1}
    assert len(first) == 50
    assert (others["count"], others["reason"]) == (9_950, "further failed logins")


async def test_failed_logins_are_written_after_their_period(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = LoopClock()
    monkeypatch.setattr(repeated_events, "time", SimpleNamespace(monotonic=clock.time))
    for _ in range(3):
        log.audit.login_failed(reason="expired", peer="ipv4:10.0.0.1:1")
    await clock.skip(2 * repeated_events._PERIOD_SECONDS)
    log.audit.login_failed(reason="expired", peer="ipv4:10.0.0.1:1")
    assert [event["count"] for event in log.events()] == [1, 2, 1]


def refuse(log: Log, caller: Caller, limit: str = "max_statements") -> None:
    log.audit.statement_refused(caller, condition="LODGE_LIMIT_EXCEEDED", limit=limit)


async def test_flood_of_refused_statements_is_two_events_per_limit(log: Log) -> None:
    for number in range(10_000):
        caller = Caller("ada", {"staff"}, "jwt", "ipv4:10.0.0.1:1", f"s{number}", f"op{number}")
        refuse(log, caller, ("max_statements", "max_sessions")[number % 2])
    first, second, *others = log.events()
    assert first == {
        "event": "statement_refused",
        "principal": "ada",
        "groups": ["staff"],
        "method": "jwt",
        "peer": "ipv4:10.0.0.1:1",
        "session": "s0",
        "operation": "op0",
        "outcome": "refused",
        "condition": "LODGE_LIMIT_EXCEEDED",
        "limit": "max_statements",
        "count": 1,
    }
    assert (second["limit"], second["session"]) == ("max_sessions", "s1")
    assert [(each["limit"], each["count"]) for each in others] == [("max_statements", 4_999), ("max_sessions", 4_999)]
    assert not any("session" in each or "operation" in each for each in others)


async def test_flood_of_refused_statements_of_many_principals_is_bounded(log: Log) -> None:
    for number in range(10_000):
        refuse(log, Caller(f"p{number}"))
    *first, others = log.events()
    assert [event["principal"] for event in first] == [f"p{number}" for number in range(50)]
    assert (others["count"], others["condition"]) == (9_950, "LODGE_LIMIT_EXCEEDED")
    assert "principal" not in others


async def test_refused_statements_of_unknown_clients_are_counted_by_host(log: Log) -> None:
    for port in range(3):
        refuse(log, Caller(peer=f"ipv4:10.0.0.1:{port}"))
    assert [event["count"] for event in log.events()] == [1, 2]


async def test_audit_without_a_log_does_nothing() -> None:
    Audit().statement_refused(Caller("ada"), condition="LODGE_LIMIT_EXCEEDED", limit="max_statements")
    Audit().login_failed(reason="expired", peer="ipv4:10.0.0.1:1")
