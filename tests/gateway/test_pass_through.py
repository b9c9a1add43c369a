"""Requests that pass through, with a real Spark and with a server that echoes."""

import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest
from google.rpc import error_details_pb2, status_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql.connect.proto import base_pb2, base_pb2_grpc
from pyspark.sql.types import IntegerType

from tests.cluster.ports import free_port
from tests.workspace.kubernetes.tcp_proxy import TcpProxy

SERVICE = "/spark.connect.SparkConnectService/"


def head(session_id=None, user="someone", **fields):
    return base_pb2.ConfigRequest(
        session_id=session_id or str(uuid.uuid4()), user_context=base_pb2.UserContext(user_id=user), **fields
    ).SerializeToString()


class EchoBackend(grpc.GenericRpcHandler):
    """A backend that echoes requests and records their metadata."""

    def __init__(self):
        self.deadlines = []
        self.metadata = []
        self.releases = []
        self.cancelled = threading.Event()

    def service(self, details):
        name = details.method.rpartition("/")[2]
        if name == "ReleaseExecute":
            return grpc.unary_unary_rpc_method_handler(self.release)
        if name in ("Config", "GetStatus", "ReleaseSession"):
            return grpc.unary_unary_rpc_method_handler(self.echo)
        if name == "ExecutePlan":
            return grpc.unary_stream_rpc_method_handler(self.endless)
        return grpc.stream_stream_rpc_method_handler(self.echo_all)

    def seen(self, context):
        self.deadlines.append(context.time_remaining())
        self.metadata.append(dict(context.invocation_metadata()))
        context.send_initial_metadata((("x-initial", "i"), ("x-binary-bin", b"\x00\xff")))
        context.set_trailing_metadata((("x-trailing", "t"),))

    def echo(self, request, context):
        self.seen(context)
        if self.metadata[-1].get("x-fail"):
            context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "so it failed")
        return request

    def release(self, request, context):
        release = base_pb2.ReleaseExecuteRequest.FromString(request)
        self.releases.append((release.operation_id, release.release_until.response_id))
        return base_pb2.ReleaseExecuteResponse(session_id=release.session_id).SerializeToString()

    def echo_all(self, requests, context):
        self.seen(context)
        yield from requests

    def endless(self, request, context):
        context.add_callback(self.cancelled.set)
        while context.is_active():
            yield request
            time.sleep(0.01)


def echo_server(backend, address="127.0.0.1:0"):
    server = grpc.server(ThreadPoolExecutor(4), options=[("grpc.so_reuseport", 0)])
    server.add_generic_rpc_handlers((backend,))
    return server, server.add_insecure_port(address)


@pytest.fixture(scope="module")
def echo(start_lodge):
    """An echoing backend, and a channel to a gateway in front of it."""
    backend = EchoBackend()
    server, port = echo_server(backend)
    server.start()
    gateway = start_lodge(backend=f"sc://127.0.0.1:{port}")
    with grpc.insecure_channel(gateway.target) as channel:
        yield backend, channel
    server.stop(None)


def test_bytes_metadata_and_deadline_pass_in_both_directions(echo):
    backend, channel = echo
    request = head() + b"\xfa\x7f\x03xyz"  # field 2047: unknown to this version of Spark
    response, call = channel.unary_unary(SERVICE + "Config").with_call(
        request, metadata=(("x-mine", "m"), ("x-mine-bin", b"\x01\xfe")), timeout=60
    )
    assert response == request
    assert backend.metadata[-1]["x-mine"] == "m"
    assert backend.metadata[-1]["x-mine-bin"] == b"\x01\xfe"
    assert 30 < backend.deadlines[-1] < 62  # gRPC rounds up
    assert dict(call.initial_metadata())["x-binary-bin"] == b"\x00\xff"
    assert dict(call.trailing_metadata())["x-trailing"] == "t"


def test_failure_keeps_its_status_and_trailers(echo):
    _, channel = echo
    with pytest.raises(grpc.RpcError) as raised:
        channel.unary_unary(SERVICE + "Config")(head(), metadata=(("x-fail", "1"),))
    assert raised.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert raised.value.details() == "so it failed"
    assert dict(raised.value.trailing_metadata())["x-trailing"] == "t"


def test_unknown_method_passes_in_both_directions(echo):
    _, channel = echo
    session_id = str(uuid.uuid4())
    requests = [head(session_id), b"\xfa\x7f\x03xyz", b""]
    assert list(channel.stream_stream(SERVICE + "MethodOfTomorrow")(iter(requests))) == requests
    assert channel.unary_unary(SERVICE + "MethodOfTomorrow")(requests[0]) == requests[0]


def test_cancellation_by_the_client_reaches_the_backend(echo):
    backend, channel = echo
    call = channel.unary_stream(SERVICE + "ExecutePlan")(head())
    assert next(call)
    call.cancel()
    assert backend.cancelled.wait(10)


def test_release_of_responses_never_follows_the_release_of_the_operation(echo, wait_until):
    backend, channel = echo
    session_id = str(uuid.uuid4())
    channel.unary_unary(SERVICE + "Config")(head(session_id))
    finished, running = str(uuid.uuid4()), str(uuid.uuid4())

    def release(operation_id, response_id=""):
        request = base_pb2.ReleaseExecuteRequest(session_id=session_id, operation_id=operation_id)
        request.user_context.user_id = "someone"
        if response_id:
            request.release_until.response_id = response_id
        else:
            request.release_all.SetInParent()
        answer = channel.unary_unary(SERVICE + "ReleaseExecute")(request.SerializeToString())
        assert base_pb2.ReleaseExecuteResponse.FromString(answer).session_id == session_id

    release(finished, "one")
    release(finished)
    release(finished, "late")
    release(running, "one")
    release(running, "two")
    wait_until(lambda: (running, "two") in backend.releases, "the last release of the running operation arrives")
    assert [response for operation, response in backend.releases if operation == finished][-1] == ""


def test_unavailable_backend_is_named_and_found_again(start_lodge):
    port = free_port()
    address = f"sc://127.0.0.1:{port}"
    gateway = start_lodge(backend=address)
    with grpc.insecure_channel(gateway.target) as channel:
        call = channel.unary_unary(SERVICE + "Config")
        with pytest.raises(grpc.RpcError) as raised:
            call(head())
        assert raised.value.code() is grpc.StatusCode.UNAVAILABLE
        assert address in raised.value.details()
        server, _ = echo_server(EchoBackend(), f"127.0.0.1:{port}")
        server.start()
        deadline = time.monotonic() + 20
        while True:
            try:
                request = head()
                assert call(request) == request
                break
            except grpc.RpcError as error:
                assert error.code() is grpc.StatusCode.UNAVAILABLE
                assert time.monotonic() < deadline, "the gateway did not find its backend again"
                time.sleep(0.1)
        server.stop(None)


def test_unary_call_survives_a_reset_of_the_connection_to_the_backend(start_lodge):
    backend = EchoBackend()
    server, port = echo_server(backend)
    server.start()
    with TcpProxy(port) as proxy:
        gateway = start_lodge(backend=f"sc://127.0.0.1:{proxy.port}")
        with grpc.insecure_channel(gateway.target) as channel:
            request = head()
            config, clone = (channel.unary_unary(SERVICE + name) for name in ("Config", "CloneSession"))
            assert config(request) == request
            proxy.lose_answer()
            assert config(request) == request
            assert proxy.connections >= 2
            proxy.lose_answer(proxy.lose_answer)  # the repetition is lost too
            assert config(request) == request
            proxy.lose_answer()
            with pytest.raises(grpc.RpcError) as raised:  # a second call would create a second clone
                clone(request)
            assert raised.value.code() is grpc.StatusCode.UNAVAILABLE
        gateway.stop()
    server.stop(None)


def test_the_health_service_answers(lodge):
    with grpc.insecure_channel(lodge.target) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        for name in ("", "spark.connect.SparkConnectService"):
            assert stub.Check(health_pb2.HealthCheckRequest(service=name)).status == 1


@pytest.mark.parametrize(
    ("method", "request_bytes"),
    [
        ("Config", b"\xff\xff\xff\xff garbage"),
        ("ExecutePlan", b"\x00\x00"),
        ("AddArtifacts", b"\x12\xff\x01"),
        ("FetchErrorDetails", head(session_id=str(uuid.UUID(int=1))) + b"\x1a\x01\xff"),
        ("ReattachExecute", head(session_id=str(uuid.UUID(int=1))) + b"\x1a\x01\xff"),
        ("ReleaseExecute", head(session_id=str(uuid.UUID(int=1))) + b"\x1a\x01\xff"),
        ("Config", base_pb2.ConfigRequest(session_id="../../etc/passwd").SerializeToString()),
        ("ExecutePlan", base_pb2.ExecutePlanRequest(session_id="not-a-uuid").SerializeToString()),
    ],
)
def test_invalid_request_gets_the_error_that_spark_gives(lodge, method, request_bytes):
    with grpc.insecure_channel(lodge.target) as channel:
        with pytest.raises(grpc.RpcError) as raised:
            list(channel.stream_stream(SERVICE + method)(iter([request_bytes])))
        details = dict(raised.value.trailing_metadata())["grpc-status-details-bin"]
        info = error_details_pb2.ErrorInfo()
        assert status_pb2.Status.FromString(details).details[0].Unpack(info)
        assert info.metadata["errorClass"] in ("CONNECT_INVALID_PLAN.CANNOT_PARSE", "INVALID_HANDLE.FORMAT")
        assert "AnalysisException" in info.metadata["classes"]
        assert "Traceback" not in raised.value.details()
        request = base_pb2.ConfigRequest(session_id=str(uuid.uuid4()))
        request.operation.get.keys.append("spark.app.name")
        assert base_pb2_grpc.SparkConnectServiceStub(channel).Config(request).pairs


def test_plan_that_only_the_backend_decodes_fails_with_the_words_of_the_backend(lodge):
    request = head(session_id=str(uuid.UUID(int=1))) + b"\x1a\x05\xff\xff\xff\xff\xff"
    with grpc.insecure_channel(lodge.target) as channel, pytest.raises(grpc.RpcError) as raised:
        list(channel.unary_stream(SERVICE + "ExecutePlan")(request))
    assert "LODGE_BACKEND_FAILED" in raised.value.details() or "CANNOT_PARSE" in raised.value.details()


def test_errors_of_spark_keep_their_details(spark):
    with pytest.raises(AnalysisException) as raised:
        spark.sql("select nope from range(1)").collect()
    assert raised.value.getCondition() == "UNRESOLVED_COLUMN.WITH_SUGGESTION"
    assert raised.value.getSqlState() == "42703"
    assert raised.value.getMessageParameters()["objectName"] == "`nope`"


def test_artifacts_functions_configuration_and_clones_work(spark, tmp_path):
    module = tmp_path / "of_the_user.py"
    module.write_text("def twice(x):\n    return 2 * x\n")
    spark.addArtifacts(str(module), pyfile=True)

    def twice(value: int) -> int:
        from of_the_user import twice as real

        return real(value)

    spark.udf.register("twice", twice, IntegerType())
    assert spark.sql("select twice(21)").collect()[0][0] == 42
    spark.conf.set("spark.sql.shuffle.partitions", "3")
    clone = spark.cloneSession()
    assert clone.session_id != spark.session_id
    assert clone.conf.get("spark.sql.shuffle.partitions") == "3"
    clone.stop()


def test_large_upload_and_large_result_arrive_complete(spark):
    import pandas as pd

    frame = pd.DataFrame({"a": range(500_000)})
    uploaded = spark.createDataFrame(frame)
    assert uploaded.selectExpr("sum(a)").collect()[0][0] == sum(range(500_000))
    assert spark.range(500_000).toArrow().num_rows == 500_000


def test_statement_of_spark_can_be_interrupted(spark, wait_until):
    """Spark runs a job to its end if it was cancelled before it was submitted, so the job must not be too long."""
    failures = []

    def run():
        try:
            spark.sql("select count(*) from range(500000000L)").collect()
        except PySparkException as error:
            failures.append(str(error))

    thread = threading.Thread(target=run)
    thread.start()
    wait_until(lambda: spark.interruptAll(), "a statement is interrupted")
    thread.join(30)
    assert "OPERATION_CANCELED" in failures[0]


def test_plan_too_deep_for_the_decoder_passes(echo):
    _, channel = echo
    relation = b"\x7a\x00"  # a range
    for _ in range(300):
        limit = b"\x0a" + varint(len(relation)) + relation
        relation = b"\x42" + varint(len(limit)) + limit
    plan = b"\x0a" + varint(len(relation)) + relation
    request = head() + b"\x1a" + varint(len(plan)) + plan
    call = channel.unary_stream(SERVICE + "ExecutePlan")(request)
    assert next(call) == request
    call.cancel()


def varint(number):
    return bytes([number & 0x7F | 0x80]) + varint(number >> 7) if number > 0x7F else bytes([number])


@pytest.mark.slow
def test_lost_stream_of_a_statement_of_lodge_is_reattached(lodge, spark):
    request = base_pb2.ExecutePlanRequest(
        session_id=spark.session_id,
        user_context=base_pb2.UserContext(user_id=spark.client._user_id or ""),
        operation_id=str(uuid.uuid4()),
    )
    request.plan.command.sql_command.input.sql.query = (
        "create temporary table once as select java_method('java.lang.Thread', 'sleep', 4000 + id * 0) a from range(1)"
    )
    request.request_options.add().reattach_options.reattachable = True
    with grpc.insecure_channel(lodge.target) as channel:
        stub = base_pb2_grpc.SparkConnectServiceStub(channel)
        lost = stub.ExecutePlan(request)
        assert next(lost).HasField("execution_progress")  # the statement runs
        lost.cancel()
        reattach = base_pb2.ReattachExecuteRequest(
            session_id=request.session_id, user_context=request.user_context, operation_id=request.operation_id
        )
        responses = list(stub.ReattachExecute(reattach))
        assert [r.WhichOneof("response_type") for r in responses if not r.HasField("execution_progress")] == [
            "sql_command_result",
            "result_complete",
        ]
        reattach.last_response_id = responses[-2].response_id
        assert [r.WhichOneof("response_type") for r in stub.ReattachExecute(reattach)] == ["result_complete"]
        with pytest.raises(grpc.RpcError, match="OPERATION_ALREADY_EXISTS"):
            list(stub.ExecutePlan(request))
    assert spark.table("once").count() == 1
