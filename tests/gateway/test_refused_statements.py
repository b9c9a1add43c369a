"""Statements that a limit refuses leave one event in the audit log, in a service with real gRPC."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grpc
import pytest
from grpc import aio
from pyspark.sql.connect.proto import base_pb2

from gateway.admission.admission import Admission
from gateway.admission.limits import AdmissionLimits
from gateway.auditing.audit import Audit
from gateway.auditing.statement_audit import StatementAudit
from gateway.backends.backends import SERVICE
from gateway.blocking_work.current_work import CurrentWork
from gateway.blocking_work.request_pools import RequestPools
from gateway.calls.service import SparkConnectService
from gateway.errors import GatewayError, fenced, limit_exceeded
from gateway.messages.identity import Identity
from gateway.operations.drain import Drain
from workspace.audit_log import AuditLog
from workspace.identifiers import Principal

SESSION = "5eb4c1de-8f0a-4f0e-9d1c-2a7c1f3b9e60"


class Authenticator:
    async def identify(self, _: object, _limit_login: object) -> Identity:
        return Identity(Principal("ann"), frozenset({"staff"}), "tokens")


class Sessions:
    """Serves one session, or refuses to open it.

    Args:
        error: The error for a request that opens a session.
    """

    def __init__(self, error: GatewayError | None) -> None:
        self._error = error

    def find(self, _: object) -> Any:
        return (
            None
            if self._error
            else SimpleNamespace(backend=None, track_request=nullcontext, suspects=(), record_name="record")
        )

    async def open(self, _: object) -> None:
        if self._error is not None:
            raise self._error

    async def open_existing(self, key: object) -> None:
        await self.open(key)


@asynccontextmanager
async def serve(audit: Audit, limits: AdmissionLimits, error: GatewayError | None) -> AsyncIterator[aio.Channel]:
    unused: Any = None
    service = SparkConnectService(
        authenticator=Authenticator(),  # type: ignore[arg-type] # replaces a class
        admission=Admission(limits),
        sessions=Sessions(error),  # type: ignore[arg-type] # replaces a class
        operations=unused,
        services=unused,
        planner=unused,
        workspaces=unused,
        paths=unused,
        audited=StatementAudit(audit, detached_timeout_seconds=1, log_query_text=False),
        pools=RequestPools(),
        plannings=unused,
        drain=Drain(),
        work=CurrentWork(),
        log_query_text=False,
    )
    server = aio.server()
    server.add_generic_rpc_handlers((service,))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield channel
    await server.stop(0)


async def refuse(channel: aio.Channel, method: str = "ExecutePlan") -> None:
    request = base_pb2.ExecutePlanRequest(
        session_id=SESSION, operation_id="5eb4c1de-8f0a-4f0e-9d1c-2a7c1f3b9e60"
    ).SerializeToString()
    with pytest.raises(aio.AioRpcError) as raised:
        await channel.unary_stream(SERVICE + method)(request).read()
    assert raised.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


class Log:
    def __init__(self, path: Path) -> None:
        self._path = path
        self.audit = Audit(AuditLog(str(path)))

    def events(self) -> list[dict[str, Any]]:
        self.audit.close()
        self.audit.log.close()
        return [json.loads(line) for line in self._path.read_text().splitlines()]


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path / "audit.log")


@pytest.mark.parametrize(
    ("limits", "error", "setting", "session"),
    [
        (AdmissionLimits(max_statements=0), None, "max_statements", SESSION),
        (AdmissionLimits(max_principal_statements=0), None, "max_principal_statements", SESSION),
        (AdmissionLimits(), limit_exceeded("sessions", 1, "max_sessions", 1), "max_sessions", SESSION),
        (AdmissionLimits(max_requests_in_flight=0), None, "max_requests_in_flight", None),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_refused_statement_has_one_event(
    log: Log, limits: AdmissionLimits, error: GatewayError | None, setting: str, session: str | None
) -> None:
    async with serve(log.audit, limits, error) as channel:
        await refuse(channel)
    (event,) = log.events()
    assert (event["event"], event["outcome"]) == ("statement_refused", "refused")
    assert (event["condition"], event["limit"], event["count"]) == ("LODGE_LIMIT_EXCEEDED", setting, 1)
    assert (event["principal"], event["groups"], event["method"]) == ("ann", ["staff"], "tokens")
    assert event["peer"].startswith("ipv4:127.0.0.1:")
    assert event.get("session") == session
    assert ("operation" in event) == (session is not None)


async def test_flood_of_refused_statements_is_two_events(log: Log) -> None:
    async with serve(log.audit, AdmissionLimits(max_statements=0), None) as channel:
        for _ in range(20):
            await refuse(channel)
    assert [event["count"] for event in log.events()] == [1, 19]


async def test_other_refused_requests_have_no_event(log: Log) -> None:
    async with serve(log.audit, AdmissionLimits(), limit_exceeded("sessions", 1, "max_sessions", 1)) as channel:
        await refuse(channel, "Config")
    assert log.events() == []


@pytest.mark.parametrize("method", ["ReattachExecute", "ExecutePlan"])
async def test_only_a_reattachment_to_a_fenced_gateway_is_repeated(log: Log, method: str) -> None:
    """A client whose gateway was lost must not believe that its statement has failed."""
    request = base_pb2.ReattachExecuteRequest(session_id=SESSION, operation_id=SESSION).SerializeToString()
    async with serve(log.audit, AdmissionLimits(), fenced()) as channel:
        with pytest.raises(aio.AioRpcError, match="LODGE_LEASE_LOST") as raised:
            await channel.unary_stream(SERVICE + method)(request).read()
    is_repeated = raised.value.code() is grpc.StatusCode.UNAVAILABLE
    assert is_repeated == (method == "ReattachExecute")
