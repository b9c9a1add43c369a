"""Limits, metrics and probes of a real gateway, with real clients."""

import threading
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Iterator

import grpc
import pytest
from google.rpc import error_details_pb2
from grpc_status import rpc_status
from pyspark.sql.connect.proto import base_pb2, base_pb2_grpc
from pyspark.sql.connect.session import SparkSession

from tests.cluster.ports import free_port
from tests.conftest import LodgeProcess

WAITS = "select java_method('java.lang.Thread', 'sleep', 3000L)"


class Limited:
    """A gateway with low limits."""

    def __init__(self, start_lodge: Callable[..., LodgeProcess], spark_server: str) -> None:
        self.port = free_port()
        self.lodge = start_lodge(
            *("--max-principal-statements", "1", "--max-principal-sessions", "3", "--request-timeout", "8s"),
            *("--metrics-listen", f"127.0.0.1:{self.port}"),
            backend=spark_server,
        )

    def get(self, path: str) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=60) as answer:
            return str(answer.read().decode())

    def metric(self, name: str) -> float:
        lines = [line for line in self.get("/metrics").splitlines() if line.startswith(f"{name} ")]
        return float(lines[0].rpartition(" ")[2])


@pytest.fixture(scope="module")
def limited(start_lodge: Callable[..., LodgeProcess], spark_server: str) -> Limited:
    return Limited(start_lodge, spark_server)


@pytest.fixture
def connect(limited: Limited) -> Iterator[Callable[[str], SparkSession]]:
    sessions: list[SparkSession] = []

    def connect(user: str) -> SparkSession:
        sessions.append(SparkSession.builder.remote(f"{limited.lodge.address}/;user_id={user}").create())
        return sessions[-1]

    yield connect
    for session in sessions:
        session.stop()


@pytest.mark.slow
def test_pyspark_waits_until_a_statement_may_run(
    limited: Limited, connect: Callable[[str], SparkSession], wait_until: Callable[..., None]
) -> None:
    spark = connect("ada")
    reached = 'lodge_gateway_limits_reached_total{setting="max_principal_statements"}'
    before = limited.metric(reached)
    other = threading.Thread(target=spark.sql(WAITS).collect)
    other.start()
    wait_until(lambda: limited.metric("lodge_gateway_statements") >= 1, "the first statement runs")
    assert spark.sql("select 1 one").collect()[0].one == 1
    other.join()
    assert limited.metric(reached) > before


def test_session_over_the_limit_is_refused_and_makes_no_record(limited: Limited) -> None:
    before = len(limited.lodge.records())

    def start(user: str) -> grpc.RpcError | None:
        request = base_pb2.ConfigRequest(session_id=str(uuid.uuid4()), user_context=base_pb2.UserContext(user_id=user))
        request.operation.get.keys.append("spark.sql.shuffle.partitions")
        try:
            stub.Config(request)
        except grpc.RpcError as error:
            return error
        return None

    with grpc.insecure_channel(limited.lodge.target) as channel:
        stub = base_pb2_grpc.SparkConnectServiceStub(channel)
        answers = [start("flooder") for _ in range(5)]
        assert start("another") is None
    assert answers[:3] == [None, None, None]
    for error in answers[3:]:
        assert isinstance(error, grpc.Call)
        assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        details = rpc_status.from_call(error).details
        assert any(detail.Is(error_details_pb2.RetryInfo.DESCRIPTOR) for detail in details)
    assert len(limited.lodge.records()) == before + 4


def test_silent_request_is_refused(limited: Limited) -> None:
    ended = threading.Event()

    def silence() -> Iterator[bytes]:
        ended.wait(60)
        yield from ()

    with grpc.insecure_channel(limited.lodge.target) as channel:
        method = channel.stream_unary("/spark.connect.SparkConnectService/AddArtifacts")
        with pytest.raises(grpc.RpcError) as refused:
            method(silence(), timeout=30)
        ended.set()
    assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


def test_probes_and_metrics_are_served(limited: Limited) -> None:
    assert limited.get("/healthz") == limited.get("/readyz") == "ok\n"
    metrics = limited.get("/metrics")
    assert 'lodge_gateway_requests_total{code="OK",method="Config"}' in metrics
    assert limited.metric("lodge_gateway_lease_valid") == 1
    assert limited.metric("lodge_gateway_unauthenticated_allowed") == 1
    with pytest.raises(urllib.error.HTTPError):
        limited.get("/other")
