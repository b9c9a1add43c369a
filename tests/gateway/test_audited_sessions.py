"""The audit log of a gateway with real clients."""

import json
import threading
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql.connect.proto import base_pb2, base_pb2_grpc
from pyspark.sql.connect.session import SparkSession

from tests.gateway.spark_errors import error_metadata

SECONDS = 60
SESSION = str(uuid.UUID(int=13))


class AuditedLodge:
    def __init__(self, gateway: Any, path: Path, wait_until: Callable[..., None]) -> None:
        self.gateway = gateway
        self._path = path
        self.wait_until = wait_until

    def events(self, session: SparkSession, event: str = "statement_finished") -> list[dict[str, Any]]:
        """Return the events of a session in order, without those of the configuration of the client."""
        lines = (json.loads(line) for line in self._path.read_text().splitlines())
        return [each for each in lines if each.get("session") == session.session_id and each["event"] == event]

    def wait(self, session: SparkSession, count: int, event: str = "statement_finished") -> list[dict[str, Any]]:
        self.wait_until(lambda: len(self.events(session, event)) >= count, f"{count} events {event}")
        return self.events(session, event)


@pytest.fixture(scope="module")
def audited(start_lodge: Any, spark_server: str, tmp_path_factory: Any, wait_until: Any) -> AuditedLodge:
    path = tmp_path_factory.mktemp("audit") / "audit.log"
    gateway = start_lodge(f"--audit-log={path}", "--session-idle-timeout=8s", "--log-query-text", backend=spark_server)
    (gateway.files / "amount.csv").write_text("a,b\n1,2\n3,4\n")
    return AuditedLodge(gateway, path, wait_until)


@pytest.fixture
def client(audited: AuditedLodge, connect: Any) -> SparkSession:
    session: SparkSession = connect(audited.gateway, user_id="ada")
    return session


@pytest.mark.slow
def test_statements_are_recorded(audited: AuditedLodge, client: SparkSession) -> None:
    client.sql("create temporary table t as select id from range(5)")
    assert len(client.table("t").collect()) == 5
    client.range(10_000).collect()
    client.read.csv(str(audited.gateway.files / "amount.csv")).collect()
    with pytest.raises(ParseException):
        client.sql("create temporary table")
    with pytest.raises(AnalysisException):
        client.table("missing").collect()
    create, table, numbers, file, syntax, missing = audited.wait(client, 6)
    common = {"principal": "ada", "session": client.session_id, "event": "statement_finished"}
    for event in (create, table, numbers, file, syntax, missing):
        assert event.items() >= common.items()
        assert event["replica"].startswith("gateway-")
        assert event["peer"].startswith("ipv4:127.0.0.1:")
        assert 0 < event["duration_seconds"] < SECONDS
        assert "method" not in event
    assert (create["kind"], create["executed_by"], create["keyword"]) == ("sql_command", "lodge", "CREATE")
    assert (create["tables"], create["outcome"]) == (["t"], "succeeded")
    assert create["query_text"].startswith("create temporary table t")
    assert (table["kind"], table["executed_by"], table["tables"], table["rows"]) == ("query", "backend", ["t"], 5)
    assert (numbers["rows"], numbers["bytes"] > 10_000) == (10_000, True)
    assert file["files"] == [str(audited.gateway.files / "amount.csv")]
    assert (syntax["outcome"], syntax["condition"]) == ("failed", "PARSE_SYNTAX_ERROR")
    assert (missing["outcome"], missing["condition"]) == ("failed", "TABLE_OR_VIEW_NOT_FOUND")


@pytest.mark.slow
def test_reattached_statement_has_one_event(audited: AuditedLodge, client: SparkSession) -> None:
    client.range(1).collect()
    (known,) = audited.wait(client, 1)
    plan = client.range(50_000)._plan.to_proto(client.client)
    execute = base_pb2.ExecutePlanRequest(
        session_id=client.session_id,
        operation_id="00000000-0000-4000-8000-00000000000a",
        user_context=base_pb2.UserContext(user_id="ada"),
        plan=plan,
    )
    execute.request_options.add().reattach_options.reattachable = True
    reattach = base_pb2.ReattachExecuteRequest(
        session_id=client.session_id, operation_id=execute.operation_id, user_context=execute.user_context
    )
    with grpc.insecure_channel(audited.gateway.target) as channel:
        stub = base_pb2_grpc.SparkConnectServiceStub(channel)
        first = stub.ExecutePlan(execute, timeout=SECONDS)
        next(first)
        first.cancel()
        for _ in range(3):
            again = stub.ReattachExecute(reattach, timeout=SECONDS)
            next(again)
            again.cancel()
        for _ in range(2):
            assert list(stub.ReattachExecute(reattach, timeout=SECONDS))[-1].HasField("result_complete")
    client.range(1).collect()
    events = audited.wait(client, 3)
    assert [event["operation"] == execute.operation_id for event in events] == [False, True, False]
    assert (events[1]["outcome"], events[1]["rows"], events[1]["kind"]) == ("succeeded", 50_000, "query")
    assert events[0] == known


@pytest.mark.slow
def test_interrupted_statement_is_canceled(audited: AuditedLodge, client: SparkSession) -> None:
    slow = client.range(10**10).selectExpr("sum(hash(id))")  # ends by itself if Spark loses the interrupt
    execute = base_pb2.ExecutePlanRequest(
        session_id=client.session_id,
        operation_id="00000000-0000-4000-8000-00000000000b",
        user_context=base_pb2.UserContext(user_id="ada"),
        plan=slow._plan.to_proto(client.client),
    )
    with grpc.insecure_channel(audited.gateway.target) as channel:
        stub = base_pb2_grpc.SparkConnectServiceStub(channel)
        stream = stub.ExecutePlan(execute, timeout=SECONDS)
        assert any(response.execution_progress.num_inflight_tasks for response in stream)
        client.interruptAll()  # while tasks run, because Spark may lose an earlier interrupt
        with pytest.raises(grpc.RpcError):
            list(stream)

    def find() -> dict[str, Any] | None:
        return next((each for each in audited.events(client) if each["operation"] == execute.operation_id), None)

    audited.wait_until(find, "the event of the interrupted statement")
    event = find()
    assert event is not None
    assert (event["outcome"], event["condition"]) == ("canceled", "OPERATION_CANCELED")


class ReleasingBackend(grpc.GenericRpcHandler):
    """A backend that answers ``ReleaseSession`` only after the session was used once more, and was closed."""

    def __init__(self) -> None:
        self.is_released, self.was_used = threading.Event(), threading.Event()

    def service(self, handler_call_details: Any) -> Any:
        method = handler_call_details.method.rpartition("/")[2]

        def answer(request: bytes, context: grpc.ServicerContext) -> bytes:
            if method == "ReleaseSession":
                self.is_released.set()
                assert self.was_used.wait(SECONDS)
            elif self.is_released.is_set():
                condition, code = "INVALID_HANDLE.SESSION_CLOSED", grpc.StatusCode.INTERNAL
                context.set_trailing_metadata(error_metadata(condition, code))
                context.abort(code, f"[{condition}] The session was closed.")
            return b""

        return grpc.unary_unary_rpc_method_handler(answer)


def test_session_that_is_released_while_it_is_used_was_released_by_the_client(
    start_lodge: Any, tmp_path: Path, wait_until: Any
) -> None:
    backend = ReleasingBackend()
    server = grpc.server(ThreadPoolExecutor(4), handlers=(backend,))
    address = f"sc://127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    path = tmp_path / "audit.log"
    gateway = start_lodge(f"--audit-log={path}", backend=address)
    context = base_pb2.UserContext(user_id="ada")
    config = base_pb2.ConfigRequest(session_id=SESSION, user_context=context)
    config.operation.get_all.SetInParent()
    with grpc.insecure_channel(gateway.target) as channel:
        stub = base_pb2_grpc.SparkConnectServiceStub(channel)
        stub.Config(config, timeout=SECONDS)
        release = base_pb2.ReleaseSessionRequest(session_id=config.session_id, user_context=context)
        released = stub.ReleaseSession.future(release, timeout=SECONDS)
        assert backend.is_released.wait(SECONDS)
        with pytest.raises(grpc.RpcError, match="SESSION_CLOSED"):
            stub.Config(config, timeout=SECONDS)
        backend.was_used.set()
        released.result()
    server.stop(None)
    wait_until(lambda: "session_closed" in path.read_text(), "the end of the session is recorded")
    [closed] = [each for each in map(json.loads, path.read_text().splitlines()) if each["event"] == "session_closed"]
    assert closed["reason"] == "released by the client"


@pytest.mark.slow
def test_sessions_are_recorded(audited: AuditedLodge, connect: Any) -> None:
    idle = open_session(audited, connect)
    stopped = open_session(audited, connect)
    stopped.stop()
    (closed,) = audited.wait(stopped, 1, "session_closed")
    assert (closed["reason"], closed["by"]) == ("released by the client", "ada")
    (expired,) = audited.wait(idle, 1, "session_expired")
    assert (expired["reason"], expired["by"], expired["principal"]) == ("idle", "gateway", "ada")
    assert not audited.events(idle, "session_closed")
    assert not audited.events(stopped, "session_expired")


def open_session(audited: AuditedLodge, connect: Any) -> SparkSession:
    session: SparkSession = connect(audited.gateway, user_id="ada")
    session.range(1).collect()
    (opened,) = audited.wait(session, 1, "session_opened")
    assert (opened["principal"], opened["by"], opened["adopted"]) == ("ada", "ada", False)
    return session
