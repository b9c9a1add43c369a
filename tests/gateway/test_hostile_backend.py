"""Backends whose answers differ from those of Spark. The gateway ends each statement, and serves other requests.

Each test uses a real gateway in a process of its own.
"""

import asyncio
import os
import random
import struct
import time
import uuid
from collections.abc import AsyncIterator

import grpc
import pyarrow as pa
import pytest
from pyspark.sql.connect.proto import base_pb2, base_pb2_grpc, types_pb2

from gateway.backends.session_settings import SETTING_DEFAULTS
from tests.gateway.hostile_backend import HostileBackend
from tests.gateway.without_collector import WITHOUT_COLLECTOR
from tests.running.process_memory import peak_bytes

pytestmark = pytest.mark.slow

STATEMENT_SECONDS = 90
PING_SECONDS = 5
MEMORY_BYTES = 700 * 2**20
STATEMENTS = (
    "select * from dfs.`a.csv` with (header = true)",
    "explain select * from dfs.`a.csv` with (header = true)",
    "create temporary table t as select 1 as id",
    "create temporary table other.t as select 1 as id",
)
MEBIBYTE = 2**20


@pytest.fixture(scope="module")
def backend():
    with HostileBackend() as backend:
        yield backend


@pytest.fixture(scope="module")
def gateway(start_lodge, backend):
    gateway = start_lodge(backend=backend.address, program=["-c", WITHOUT_COLLECTOR])
    (gateway.files / "a.csv").write_text("id\n1\n")
    return gateway


def error_of(gateway, text, *, as_root=False):
    """Return the error with which a statement of a new session ends; None without an error."""
    request = base_pb2.ExecutePlanRequest(session_id=str(uuid.uuid4()), operation_id=str(uuid.uuid4()))
    request.user_context.user_id = "eve"
    sql = request.plan.root.sql if as_root else request.plan.command.sql_command.input.sql
    sql.query = text
    with grpc.insecure_channel(gateway.target, [("grpc.max_receive_message_length", -1)]) as channel:
        stub = base_pb2_grpc.SparkConnectServiceStub(channel)
        try:
            for _ in stub.ExecutePlan(request, timeout=STATEMENT_SECONDS):
                pass
        except grpc.RpcError as error:
            return error
        return None


def ended(gateway, text):
    """Return the code of the error with which a statement of a new session ends; None without an error."""
    error = error_of(gateway, text)
    return None if error is None else error.code()


def end_of_forwarded_call(gateway):
    """Return how a call ends that the gateway only forwards: the code of its error; None without an error."""
    request = base_pb2.ConfigRequest(session_id=str(uuid.uuid4()))
    request.user_context.user_id = "eve"
    request.operation.get_all.SetInParent()
    with grpc.insecure_channel(gateway.target, [("grpc.max_receive_message_length", -1)]) as channel:
        try:
            base_pb2_grpc.SparkConnectServiceStub(channel).Config(request, timeout=STATEMENT_SECONDS)
        except grpc.RpcError as error:
            return error.code()
        return None


def refused_at_once(gateway):
    """Return the seconds after which the gateway refuses a statement that needs no backend."""
    request = base_pb2.ExecutePlanRequest(session_id="no UUID")
    begun = time.monotonic()
    with grpc.insecure_channel(gateway.target) as channel, pytest.raises(grpc.RpcError):
        list(base_pb2_grpc.SparkConnectServiceStub(channel).ExecutePlan(request, timeout=60))
    return time.monotonic() - begun


def unforeseen(gateway):
    """Return how many requests have failed with an error that the gateway did not expect."""
    return gateway.log().count("Traceback")


def raw(*answers):
    async def answer(_: bytes) -> AsyncIterator[bytes]:
        for each in answers:
            yield each

    return answer


def response(**fields):
    return base_pb2.ExecutePlanResponse(server_side_session_id="server", **fields)


def rows(data, count=1):
    answer = response()
    answer.arrow_batch.row_count, answer.arrow_batch.data = count, data
    complete = response()
    complete.result_complete.SetInParent()
    return raw(answer.SerializeToString(), complete.SerializeToString())


def findings(damage=None, error=None):
    """Return rows with the columns of a discovery, whose bytes are damaged at random."""
    table = pa.table({"files": [[0]], "schema": [b"x" * 100], "error": pa.array([error], pa.string())})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    data = bytearray(sink.getvalue().to_pybytes())
    for _ in range(damage.randint(1, 8) if damage else 0):
        data[damage.randrange(len(data))] = damage.randrange(256)
    return bytes(data)


def lying_offsets():
    sink = pa.BufferOutputStream()
    columns = {"files": pa.array([[0], [0], [0]]), "schema": [b"a", b"b", b"c"], "error": ["x", "y", "z"]}
    with pa.ipc.new_stream(sink, pa.table(columns).schema) as writer:
        writer.write_table(pa.table(columns))
    return (
        sink.getvalue().to_pybytes().replace(struct.pack("<4i", 0, 1, 2, 3), struct.pack("<4i", 0, 2_000_000_000, 2, 3))
    )


async def endless_progress(_: bytes) -> AsyncIterator[bytes]:
    answer = response()
    answer.execution_progress.num_inflight_tasks = 1
    data = answer.SerializeToString()
    while True:
        yield data


async def endless_metrics(_: bytes) -> AsyncIterator[bytes]:
    while True:
        answer = response()
        for _ in range(100):
            metrics = answer.observed_metrics.add(name=str(uuid.uuid4()))
            metrics.values.add(long=1)
        yield answer.SerializeToString()


async def long_metrics(_: bytes) -> AsyncIterator[bytes]:
    """Few metrics with names of 50 MiB."""
    answer = response()
    metrics = answer.observed_metrics.add(name="x" * (50 * MEBIBYTE))
    metrics.values.add(long=1)
    for number in range(40):
        metrics.name = f"{number}{metrics.name[len(str(number)) :]}"
        yield answer.SerializeToString()


async def long_ids(_: bytes) -> AsyncIterator[bytes]:
    answer = response()
    answer.response_id = "x" * (50 * MEBIBYTE)
    yield answer.SerializeToString()


async def nothing(_: bytes) -> AsyncIterator[bytes]:
    for answer in ():
        yield answer


async def long_error(_: bytes) -> AsyncIterator[bytes]:
    await asyncio.sleep(0)
    raise ValueError("INVALID_HANDLE.SESSION_CHANGED " + "x" * MEBIBYTE)
    yield b""


def described_type(metadata: str) -> types_pb2.DataType:
    """Return a struct whose only column has metadata."""
    found = types_pb2.DataType()
    found.struct.fields.add(name="a", data_type=types_pb2.DataType(long={}), metadata='{"a":[' + metadata)
    return found


def schema(data_type):
    answer = base_pb2.AnalyzePlanResponse(server_side_session_id="server")
    answer.schema.schema.CopyFrom(data_type)
    return raw(answer.SerializeToString())


def deep_type(depth):
    found = types_pb2.DataType(long={})
    for _ in range(depth):
        found = types_pb2.DataType(array=types_pb2.DataType.Array(element_type=found))
    return found


def wide_type(count):
    found = types_pb2.DataType()
    for number in range(count):
        found.struct.fields.add(name=str(number), data_type=types_pb2.DataType(long={}))
    return found


def explanation(text):
    answer = base_pb2.AnalyzePlanResponse(server_side_session_id="server")
    answer.explain.explain_string = text
    return raw(answer.SerializeToString())


def long_settings(length):
    answer = base_pb2.ConfigResponse(server_side_session_id="server")
    for key in SETTING_DEFAULTS:
        answer.pairs.add(key=key, value="," * length)
    return raw(answer.SerializeToString())


def empty_batches(count):
    sink = pa.BufferOutputStream()
    batch = pa.RecordBatch.from_pylist([], pa.schema([("exists", pa.bool_())]))
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        for _ in range(count):
            writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def settings(count):
    answer = base_pb2.ConfigResponse(server_side_session_id="server")
    for number in range(count):
        answer.pairs.add(key=str(number), value="x")
    return raw(answer.SerializeToString())


ATTACKS = {
    "no settings": lambda: {"Config": settings(0)},
    "many settings": lambda: {"Config": settings(300_000)},
    "settings that cannot be decoded": lambda: {"Config": raw(b"\xff" * 100)},
    "large settings": lambda: {"Config": raw(b"\x0a" + b"\x80\x80\x80\xc0\x01" + bytes(400 * MEBIBYTE))},
    "no settings at all": lambda: {"Config": nothing},
    "a schema that cannot be decoded": lambda: {"AnalyzePlan": raw(b"\xff" * 100)},
    "a schema that is no struct": lambda: {"AnalyzePlan": schema(types_pb2.DataType(long={}))},
    "a deep schema": lambda: {"AnalyzePlan": schema(deep_type(45))},
    "a wide schema": lambda: {"AnalyzePlan": schema(wide_type(100_000))},
    "a schema with long metadata": lambda: {"AnalyzePlan": schema(described_type("{}," * (20 * MEBIBYTE // 3)))},
    "a schema with deep metadata": lambda: {"AnalyzePlan": schema(described_type("[" * 100_000))},
    "a schema with metadata that are no JSON": lambda: {"AnalyzePlan": schema(described_type("x"))},
    "an answer to another question": lambda: {"AnalyzePlan": explanation("x")},
    "a long explanation": lambda: {"AnalyzePlan": explanation("x" * (100 * MEBIBYTE))},
    "an error with a long text": lambda: {"AnalyzePlan": long_error, "ExecutePlan": long_error},
    "progress without end": lambda: {"ExecutePlan": endless_progress, "ReattachExecute": endless_progress},
    "metrics without end": lambda: {"ExecutePlan": endless_metrics, "ReattachExecute": endless_metrics},
    "metrics with long names": lambda: {"ExecutePlan": long_metrics, "ReattachExecute": long_metrics},
    "responses with long ids": lambda: {"ExecutePlan": long_ids, "ReattachExecute": long_ids},
    "streams without an answer": lambda: {"ExecutePlan": nothing, "ReattachExecute": nothing},
    "rows that cannot be decoded": lambda: {"ExecutePlan": rows(b"\xff" * 100)},
    "rows with false offsets": lambda: {"ExecutePlan": rows(lying_offsets(), 3)},
    "batches without rows": lambda: {"ExecutePlan": rows(empty_batches(200_000))},
    "findings with a long error": lambda: {"ExecutePlan": rows(findings(error="[" + "[]," * (8 * MEBIBYTE) + "[]]"))},
    "rows of other columns": lambda: {"ExecutePlan": rows(findings()[:8] + bytes(64))},
    "responses that cannot be decoded": lambda: {"ExecutePlan": raw(b"\xff" * 100)},
}
"""Functions that return answers by method; the answers are large."""

SLOW = {"streams without an answer"}
"""The attacks after which the gateway tries again for some time."""


@pytest.mark.parametrize("name", ATTACKS)
def test_statement_ends_and_the_gateway_goes_on(gateway, backend, name):
    before, backend.answers = unforeseen(gateway), ATTACKS[name]()
    try:
        for text in STATEMENTS[: 1 if name in SLOW else None]:
            code = ended(gateway, text)
            assert code is not grpc.StatusCode.DEADLINE_EXCEEDED, text
            assert end_of_forwarded_call(gateway) is not grpc.StatusCode.DEADLINE_EXCEEDED
            assert refused_at_once(gateway) < PING_SECONDS
    finally:
        backend.answers = {}
    assert gateway.process.poll() is None
    assert peak_bytes(gateway.gateway_pid) < MEMORY_BYTES
    assert unforeseen(gateway) == before


def compressed_rows():
    """Return a short stream of rows that occupy 400 MiB."""
    sink = pa.BufferOutputStream()
    table = pa.table({"plan": ["x" * (4 * MEBIBYTE)] * 100})
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def rows_of_changing_dictionaries():
    """Return a stream of batches whose indices are outside of their dictionaries."""
    batches = [
        pa.RecordBatch.from_arrays(
            [pa.DictionaryArray.from_arrays(pa.array([2**30], pa.int32()), pa.array([text]), safe=False)], ["plan"]
        )
        for text in ("a", "b")
    ]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


@pytest.mark.parametrize(
    "make", [bytes, lambda: b"\xff" * 100, lying_offsets, compressed_rows, rows_of_changing_dictionaries]
)
def test_rows_of_a_command_are_checked_before_a_relation_gets_them(gateway, backend, make):
    before, process = unforeseen(gateway), gateway.gateway_pid
    answer = response()
    answer.sql_command_result.relation.local_relation.data = make()
    backend.answers = {"ExecutePlan": raw(answer.SerializeToString())}
    try:
        error = error_of(gateway, "explain create temporary table t as select 1 as id", as_root=True)
        assert "LODGE_BACKEND_FAILED" in error.details()
        assert refused_at_once(gateway) < PING_SECONDS
    finally:
        backend.answers = {}
    assert (gateway.gateway_pid, unforeseen(gateway)) == (process, before)


def test_damaged_findings_never_end_the_gateway(gateway, backend):
    before = unforeseen(gateway)
    rng = random.Random(os.environ.get("SEED", "1"))  # noqa: S311 - must be repeatable, not secret
    try:
        for _ in range(50):
            backend.answers = {"ExecutePlan": rows(findings(rng))}
            assert ended(gateway, STATEMENTS[0]) is not grpc.StatusCode.DEADLINE_EXCEEDED
    finally:
        backend.answers = {}
    assert gateway.process.poll() is None
    assert unforeseen(gateway) == before


def test_long_settings_are_refused_before_they_are_read(gateway, backend):
    backend.answers = {"Config": long_settings(MEBIBYTE)}
    try:
        error = error_of(gateway, STATEMENTS[-1])
    finally:
        backend.answers = {}
    assert "LODGE_LIMIT_REACHED" in error.details()
    assert "spark.sql.session.timeZone" in error.details()
