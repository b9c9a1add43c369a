"""The memory of a message is free when its call has ended."""

import contextlib
import uuid

import grpc
import pytest
from pyspark.sql.connect.proto import base_pb2, base_pb2_grpc

from tests.gateway.without_collector import WITHOUT_COLLECTOR
from tests.running.process_memory import resident_bytes

pytestmark = pytest.mark.slow

MESSAGE_BYTES = 4 * 2**20
WARM_UP_CALLS = 4
"""The first calls load modules, start threads and fill caches, which stay."""

CALLS = 6
TOO_MANY = 5
STATEMENTS = {
    "query": "select 1 /* {} */",
    "query of a file": "select * from dfs.`a.csv` with (header = true) /* {} */",
    "missing file": "select * from dfs.`missing.csv` /* {} */",
    "syntax error": "select * from dfs.`a.csv` from /* {} */",
    "missing column": "select x from dfs.`a.csv` with (header = true) /* {} */",
    "error at execution": "select raise_error(id) from dfs.`a.csv` with (header = true) /* {} */",
    "table": "create or replace temporary table t as select 1 /* {} */",
    "table with an error": "create temporary table other as select x /* {} */",
    "table with an invalid name": "create temporary table dfs.a.b.t as select 1 /* {} */",
    "removal of a missing table": "drop temporary table missing /* {} */",
    "table that exists": "create temporary table if not exists kept as select 1 /* {} */",
    "list of tables": "show temporary tables like 'x' /* {} */",
    "script": "begin select * from dfs.`a.csv`; end /* {} */",
    "text in a text": "execute immediate 'select * from dfs.`missing.csv`' /* {} */",
    "refused insert": "insert into dfs.`a.csv` values (1) /* {} */",
}


@pytest.fixture(scope="module")
def gateway(start_lodge, spark_server):
    gateway = start_lodge(backend=spark_server, program=["-c", WITHOUT_COLLECTOR])
    (gateway.files / "a.csv").write_text("id\n1\n")
    return gateway


@pytest.fixture(scope="module")
def stub(gateway):
    with grpc.insecure_channel(gateway.target) as channel:
        yield base_pb2_grpc.SparkConnectServiceStub(channel)


@pytest.fixture(scope="module")
def session_id(stub):
    found = str(uuid.uuid4())
    list(stub.ExecutePlan(execution(found, "create temporary table kept as select 1")))
    return found


def execution(session_id, text):
    request = base_pb2.ExecutePlanRequest(session_id=session_id, operation_id=str(uuid.uuid4()))
    request.user_context.user_id = "eve"
    request.plan.command.sql_command.input.sql.query = text
    return request


def analysis(session_id, text, kind):
    request = base_pb2.AnalyzePlanRequest(session_id=session_id)
    request.user_context.user_id = "eve"
    getattr(request, kind).plan.root.sql.query = text
    if kind == "explain":
        request.explain.explain_mode = base_pb2.AnalyzePlanRequest.Explain.EXPLAIN_MODE_SIMPLE
    return request


def attempt(call):
    """Make a call that may fail."""
    with contextlib.suppress(grpc.RpcError):
        call()


def kept_messages(gateway, call):
    """Return how many messages of ended calls the gateway keeps in memory."""
    for _ in range(WARM_UP_CALLS):
        attempt(call)
    before = resident_bytes(gateway.gateway_pid)
    for _ in range(CALLS):
        attempt(call)
    return (resident_bytes(gateway.gateway_pid) - before) / MESSAGE_BYTES


@pytest.mark.parametrize("name", STATEMENTS)
def test_statement(gateway, stub, session_id, name):
    text = STATEMENTS[name].format("x" * MESSAGE_BYTES)
    assert kept_messages(gateway, lambda: list(stub.ExecutePlan(execution(session_id, text)))) < TOO_MANY


@pytest.mark.parametrize("kind", ["schema", "explain"])
@pytest.mark.parametrize("path", ["a.csv", "missing.csv"])
def test_analysis(gateway, stub, session_id, kind, path):
    request = analysis(session_id, f"select * from dfs.`{path}` /* {'x' * MESSAGE_BYTES} */", kind)
    assert kept_messages(gateway, lambda: stub.AnalyzePlan(request)) < TOO_MANY


def test_deep_plan(gateway, stub, session_id):
    request = execution(session_id, "")
    relation = request.plan.root
    for _ in range(1000):
        relation = relation.filter.input
    relation.sql.query = f"select 1 /* {'x' * MESSAGE_BYTES} */"
    assert kept_messages(gateway, lambda: list(stub.ExecutePlan(request))) < TOO_MANY


def test_statement_without_valid_session(gateway, stub):
    request = execution("no UUID", "x" * MESSAGE_BYTES)
    assert kept_messages(gateway, lambda: list(stub.ExecutePlan(request))) < TOO_MANY


def test_cancelled_statement(gateway, stub, session_id):
    text = f"create temporary table t as select count(*) from range(1000000000000) /* {'x' * MESSAGE_BYTES} */"
    assert kept_messages(gateway, lambda: list(stub.ExecutePlan(execution(session_id, text), timeout=1))) < TOO_MANY


def test_invalid_artifacts(gateway, stub, session_id):
    request = base_pb2.AddArtifactsRequest(session_id=session_id)
    request.user_context.user_id = "eve"
    artifact = request.batch.artifacts.add(name="../a")
    artifact.data.data = b"x" * MESSAGE_BYTES
    assert kept_messages(gateway, lambda: stub.AddArtifacts(iter([request]))) < TOO_MANY
