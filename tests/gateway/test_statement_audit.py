"""Each statement has one event in the audit log, at any number of streams."""

import asyncio
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from grpc import StatusCode, aio
from pyspark.sql.connect.proto import base_pb2, commands_pb2, relations_pb2

from gateway.auditing.audit import Audit, Caller
from gateway.auditing.statement_audit import ObservedStatement, StatementAudit
from gateway.errors import GatewayError
from gateway.messages.error_status import error_status
from gateway.messages.requests import Request, read_request
from gateway.messages.statement_request import StatementRequest
from gateway.operations.operations import Operation
from tests.gateway.loop_clock import LoopClock
from workspace.audit_log import AuditLog

SESSION = "00000000-0000-4000-8000-000000000001"
DETACHED_SECONDS = 300.0
COMPLETE = base_pb2.ExecutePlanResponse(
    session_id="s", result_complete=base_pb2.ExecutePlanResponse.ResultComplete()
).SerializeToString()
CANCELED = GatewayError("OPERATION_CANCELED", "HY008", "canceled")
SYNTAX_ERROR = GatewayError("PARSE_SYNTAX_ERROR", "42601", "wrong")
ALREADY_EXISTS = GatewayError("INVALID_HANDLE.OPERATION_ALREADY_EXISTS", "HY000", "exists")
NOT_FOUND = GatewayError("INVALID_HANDLE.OPERATION_NOT_FOUND", "HY000", "no such operation")


class Site:
    def __init__(self, path: Path) -> None:
        self._path = path
        self.audit = Audit(AuditLog(str(path)))
        self.statements = StatementAudit(self.audit, detached_timeout_seconds=DETACHED_SECONDS, log_query_text=False)
        Audit.set_caller(Caller("ada", frozenset({"b", "a"}), "jwt", "ipv4:10.0.0.1:4711", "s", "op"))

    def begin(self, sql: str = "select * from t", *, operation: str = "op", reattachable: bool = True) -> Any:
        return self.statements.begin(request(sql, operation, reattachable=reattachable))

    def events(self) -> list[dict[str, Any]]:
        self.audit.log.close()
        return [json.loads(line) for line in self._path.read_text().splitlines()]

    def outcomes(self) -> list[tuple[str, str | None, str | None]]:
        return [(event["event"], event.get("outcome"), event.get("condition")) for event in self.events()]


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path / "audit.log")


def request(sql: str = "select 1", operation: str = "op", *, reattachable: bool = True) -> Request:
    command = commands_pb2.SqlCommand(input=relations_pb2.Relation(sql=relations_pb2.SQL(query=sql)))
    plan = base_pb2.Plan(command=commands_pb2.Command(sql_command=command))
    message = base_pb2.ExecutePlanRequest(session_id=SESSION, operation_id=operation, plan=plan)
    message.request_options.add().reattach_options.reattachable = reattachable
    return read_request(message.SerializeToString(), "ExecutePlan")


def batch(rows: int, start: int | None = None) -> bytes:
    arrow = base_pb2.ExecutePlanResponse.ArrowBatch(row_count=rows, data=b"12345")
    if start is not None:
        arrow.start_offset = start
    return base_pb2.ExecutePlanResponse(session_id="s", arrow_batch=arrow).SerializeToString()


def rpc_error(code: StatusCode, error: GatewayError | None = None) -> aio.AioRpcError:
    trailing = aio.Metadata() if error is None else aio.Metadata(*error_status(error)[2])
    return aio.AioRpcError(code, aio.Metadata(), trailing, "details")


def stream(
    site: Site, observed: ObservedStatement | None, *responses: bytes, error: BaseException | None = None
) -> None:
    def run() -> None:
        with site.statements.follow(observed) as count:
            for response in responses:
                count(response)
            if error is not None:
                raise error

    if error is None:
        run()
    else:
        with pytest.raises(type(error)):
            run()


async def test_event_of_a_statement_has_all_fields(site: Site) -> None:
    observed = site.begin()
    observed.statement.kind = "sql_command"
    responses = (batch(3, 0), batch(4, 3), COMPLETE)
    stream(site, observed, *responses)
    (event,) = site.events()
    assert event.pop("timestamp")
    assert 0 < event.pop("duration_seconds") < 10
    assert event == {
        "event": "statement_finished",
        "principal": "ada",
        "groups": ["a", "b"],
        "method": "jwt",
        "peer": "ipv4:10.0.0.1:4711",
        "session": "s",
        "operation": "op",
        "kind": "sql_command",
        "executed_by": "backend",
        "outcome": "succeeded",
        "rows": 7,
        "bytes": sum(map(len, responses)),
        "keyword": "SELECT",
        "tables": ["t"],
        "names_complete": True,
    }


@pytest.mark.parametrize("reattaches", [0, 1, 5])
async def test_reattaching_adds_no_event_and_no_rows(site: Site, reattaches: int) -> None:
    stream(site, site.begin(), batch(3, 0), error=rpc_error(StatusCode.UNAVAILABLE))
    for _ in range(reattaches):
        stream(site, site.statements.reattach(request()), batch(3, 0))
    stream(site, site.statements.reattach(request()), batch(3, 0), batch(1, 3), COMPLETE)
    for _ in range(reattaches):
        stream(site, site.statements.reattach(request()), batch(1, 3), COMPLETE)
    (event,) = site.events()
    assert (event["event"], event["outcome"], event["rows"]) == ("statement_finished", "succeeded", 4)


@pytest.mark.parametrize(
    ("error", "reattachable", "expected"),
    [
        (SYNTAX_ERROR, True, ("statement_finished", "failed", "PARSE_SYNTAX_ERROR")),
        (CANCELED, True, ("statement_finished", "canceled", "OPERATION_CANCELED")),
        (rpc_error(StatusCode.INTERNAL, SYNTAX_ERROR), True, ("statement_finished", "failed", "PARSE_SYNTAX_ERROR")),
        (rpc_error(StatusCode.INTERNAL, CANCELED), True, ("statement_finished", "canceled", "OPERATION_CANCELED")),
        (rpc_error(StatusCode.RESOURCE_EXHAUSTED), True, ("statement_finished", "failed", "RESOURCE_EXHAUSTED")),
        (rpc_error(StatusCode.UNAVAILABLE), False, ("statement_finished", "failed", "UNAVAILABLE")),
        (asyncio.CancelledError(), False, ("statement_finished", "canceled", "OPERATION_CANCELED")),
        (aio.UsageError(), False, ("statement_finished", "failed", None)),
    ],
)
async def test_end_of_the_stream_decides_the_outcome(
    site: Site, error: BaseException, reattachable: bool, expected: tuple[str, str, str]
) -> None:
    stream(site, site.begin(reattachable=reattachable), batch(1), error=error)
    assert site.outcomes() == [expected]


async def test_statement_that_cannot_be_reattached_succeeds_with_its_stream(site: Site) -> None:
    stream(site, site.begin(reattachable=False), batch(1))
    assert site.outcomes() == [("statement_finished", "succeeded", None)]


@pytest.mark.parametrize(
    "error",
    [None, rpc_error(StatusCode.UNAVAILABLE), asyncio.CancelledError(), rpc_error(StatusCode.INTERNAL, NOT_FOUND)],
)
async def test_statement_is_left_if_no_client_comes_back(site: Site, error: BaseException | None) -> None:
    clock = LoopClock()
    stream(site, site.begin(), batch(1), error=error)
    await clock.skip(DETACHED_SECONDS)
    (event,) = site.events()
    assert (event["event"], event["reason"]) == ("statement_left", "no client followed the operation")
    assert (event["tables"], event["rows"]) == (["t"], 1)


async def test_discarded_statement_is_canceled(site: Site) -> None:
    stream(site, site.begin(), batch(1), error=asyncio.CancelledError())
    site.statements.release(request())
    site.statements.release(request())
    assert site.outcomes() == [("statement_finished", "canceled", "OPERATION_CANCELED")]


async def test_repeated_request_is_one_statement(site: Site) -> None:
    stream(site, site.begin(), error=rpc_error(StatusCode.UNAVAILABLE))
    stream(site, site.begin(), COMPLETE)
    assert site.outcomes() == [("statement_finished", "succeeded", None)]


async def test_repeated_request_does_not_end_a_running_statement(site: Site) -> None:
    with site.statements.follow(site.begin()) as count:
        stream(site, site.begin(), error=rpc_error(StatusCode.INTERNAL, ALREADY_EXISTS))
        count(COMPLETE)
    assert site.outcomes() == [("statement_finished", "succeeded", None)]


@pytest.mark.parametrize("error", [None, GatewayError("LODGE_TABLE_EXISTS", "42P07", "exists")])
async def test_lodge_statement_ends_with_its_operation(site: Site, error: GatewayError | None) -> None:
    clock, may_end = LoopClock(), asyncio.Event()
    operation = a_running_operation(error, may_end)
    observed = site.begin("create temporary table t as select 1")
    with site.statements.follow(observed):
        site.statements.finish_with(operation, observed)
    await clock.skip(2 * DETACHED_SECONDS)
    assert site.statements.reattach(request()) is observed
    may_end.set()
    await end(operation)
    (event,) = site.events()
    assert (event["event"], event["executed_by"], event["tables"]) == ("statement_finished", "lodge", ["t"])
    assert event.get("condition") == (None if error is None else error.condition)
    assert (event["rows"], event["bytes"] > 0) == (0, error is None)


async def test_operation_that_waits_for_another_replica_has_no_event(site: Site) -> None:
    operation = a_running_operation(None)
    operation.executes = False
    site.statements.finish_with(operation, site.statements.reattach(request()))
    await end(operation)
    site.statements.close()
    assert site.events() == []


def a_running_operation(error: GatewayError | None, may_end: asyncio.Event | None = None) -> Operation:
    operation = Operation(StatementRequest(SESSION, operation_id="op", is_reattachable=True))

    async def run() -> base_pb2.ExecutePlanResponse:
        if may_end is not None:
            await may_end.wait()
        if error is not None:
            raise error
        return base_pb2.ExecutePlanResponse()

    operation.start(run)
    return operation


async def end(operation: Operation) -> None:
    with suppress(GatewayError):
        async for _ in operation.responses():
            pass


async def test_operation_id_does_not_hide_another_statement(site: Site) -> None:
    stream(site, site.begin("select 1 from harmless"), error=rpc_error(StatusCode.UNAVAILABLE))
    stream(site, site.begin("select 1 from secret"), COMPLETE)
    stream(site, site.begin("select 1 from other"), COMPLETE)
    left, finished, again = site.events()
    assert (left["event"], left["tables"]) == ("statement_left", ["harmless"])
    assert (finished["event"], finished["tables"]) == ("statement_finished", ["secret"])
    assert (again["event"], again["tables"]) == ("statement_finished", ["other"])


async def test_statement_of_another_replica_is_recorded_as_reattached(site: Site) -> None:
    stream(site, site.statements.reattach(request()), batch(2, 5), COMPLETE)
    (event,) = site.events()
    assert (event["kind"], event["outcome"], event["names_complete"]) == ("reattached", "succeeded", False)


async def test_operation_that_does_not_exist_has_no_event(site: Site) -> None:
    for _ in range(3):
        stream(site, site.statements.reattach(request()), error=rpc_error(StatusCode.INTERNAL, NOT_FOUND))
    site.statements.close()
    assert site.events() == []


async def test_running_statements_are_left_when_the_gateway_stops(site: Site) -> None:
    site.begin()
    site.statements.close()
    (event,) = site.events()
    assert (event["event"], event["reason"]) == ("statement_left", "the gateway stopped")


async def test_statements_without_operation_id_are_independent(site: Site) -> None:
    for _ in range(2):
        stream(site, site.begin(operation=""), COMPLETE)
    assert [event["outcome"] for event in site.events()] == ["succeeded", "succeeded"]


async def test_query_text_is_written_only_if_configured(tmp_path: Path) -> None:
    for name, log_query_text in (("with", True), ("without", False)):
        site = Site(tmp_path / name)
        site.statements = StatementAudit(site.audit, detached_timeout_seconds=1, log_query_text=log_query_text)
        stream(site, site.begin("select 'a\nb' from t"), COMPLETE)
        (event,) = site.events()
        assert event.get("query_text") == ("select 'a\nb' from t" if log_query_text else None)


async def test_large_statement_is_recorded_without_its_names(site: Site) -> None:
    stream(site, site.begin("select 1 from t -- " + 100_000 * "x"), COMPLETE)
    (event,) = site.events()
    assert (event["outcome"], event["names_complete"], "tables" in event) == ("succeeded", False, False)
