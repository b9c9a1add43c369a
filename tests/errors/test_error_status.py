"""The gRPC status of an error, as each kind of client reads it."""

import json
import uuid
from concurrent import futures

import grpc
import pytest
from grpc_status import rpc_status
from pyspark.sql.connect.client.retries import DefaultPolicy, Retrying
from pyspark.sql.connect.proto import base_pb2

from gateway.errors import (
    CanceledError,
    GatewayError,
    ParseError,
    access_denied,
    limit_exceeded,
    no_backend,
    session_closed,
    table_not_found,
    unauthenticated,
)
from gateway.messages.error_status import error_info, error_status, is_jvm
from gateway.messages.requests import index_request, read_request
from gateway.tables.table_errors import AlreadyExistsError

PYTHON = "_SPARK_CONNECT_PYTHON spark/4.3.0 os/linux python/3.11.7"
SCALA = "_SPARK_CONNECT_SCALA spark/4.3.0 scala/2.13.18 jvm/17.0.15 os/linux"
JAVA_USER_AGENT = "grpc-java-netty/1.76.0"
NAMED_SCALA = "my-app spark/4.3.0 scala/2.13.18 jvm/17.0.15 os/linux"


def first_class(error, client_type):
    info = error_info(error_status(error, client_type).trailing)
    assert info.reason == json.loads(info.metadata["classes"])[0]
    return info.reason.rpartition(".")[2]


@pytest.mark.parametrize(
    ("error", "python", "scala"),
    [
        (no_backend(), "AnalysisException", "SparkException"),
        (table_not_found("t"), "AnalysisException", "AnalysisException"),
        (ParseError("A query was expected."), "ParseException", "ParseException"),
        (CanceledError(), "SparkSQLException", "SparkSQLException"),
    ],
    ids=["own", "Spark's", "syntax", "canceled"],
)
def test_jvm_clients_get_lodge_conditions_with_their_text(error, python, scala):
    assert first_class(error, PYTHON) == python
    assert first_class(error, SCALA) == first_class(error, NAMED_SCALA) == scala


def test_only_jvm_clients_rebuild_messages():
    assert all(is_jvm(each) for each in (SCALA, NAMED_SCALA, JAVA_USER_AGENT))
    assert not any(is_jvm(each) for each in (PYTHON, "spark-connect-go", "grpc-python/1.85.1 grpc-c/58.0.0", ""))


@pytest.mark.parametrize("letter", ["x", "%", "ü", "\U0001f600"])
def test_status_fits_into_metadata_limit_of_clients(letter):
    long = letter * 100_000
    status = error_status(GatewayError("LODGE_X", "42000", long, {"a": long, "b": long, "c": long}))
    info = error_info(status.trailing)
    assert status.code is grpc.StatusCode.INTERNAL
    assert status.details.startswith(f"[LODGE_X] {letter}")
    assert status.details.endswith("... SQLSTATE: 42000")
    assert set(json.loads(info.metadata["messageParameters"])) == {"a", "b", "c"}
    assert len(status.details.encode()) + len(status.trailing[0][1]) < 8 * 1024


CLIENT_CONDITIONS = (
    "INVALID_CURSOR.DISCONNECTED",
    "INVALID_HANDLE.SESSION_NOT_FOUND",
    "invalid_handle.operation_not_found",
)


@pytest.mark.parametrize("condition", CLIENT_CONDITIONS)
def test_data_in_a_text_does_not_read_like_a_condition_on_which_clients_act(condition):
    error = GatewayError(
        "LODGE_MALFORMED_FILE", "22000", f"'{condition}.csv' is malformed.", {"file": f"{condition}.csv"}
    )
    status = error_status(error)
    assert condition not in status.details
    assert condition.replace(".", ". ") in status.details
    assert json.loads(error_info(status.trailing).metadata["messageParameters"]) == {"file": f"{condition}.csv"}


def test_condition_of_an_error_of_lodge_is_unchanged():
    assert error_status(session_closed("s1")).details.startswith("[INVALID_HANDLE.SESSION_CLOSED] ")


@pytest.fixture
def failed_call():
    """Return a function that answers a real gRPC call with an error, and returns what the client raised."""
    with futures.ThreadPoolExecutor(1) as pool:
        server = grpc.server(pool)
        statuses = []

        def answer(request, context):
            status = statuses.pop()
            context.set_trailing_metadata(status.trailing)
            context.abort(status.code, status.details)

        handler = grpc.method_handlers_generic_handler("S", {"M": grpc.unary_unary_rpc_method_handler(answer)})
        server.add_generic_rpc_handlers([handler])
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:

            def call(error):
                statuses.append(error_status(error))
                with pytest.raises(grpc.RpcError) as raised:
                    channel.unary_unary("/S/M")(b"")
                return raised.value

            yield call
        server.stop(None).wait()


@pytest.mark.parametrize(
    ("error", "code", "condition"),
    [
        (unauthenticated("it has no credentials"), grpc.StatusCode.UNAUTHENTICATED, "LODGE_UNAUTHENTICATED"),
        (access_denied("bob", "drop table [dfs.data.t]"), grpc.StatusCode.INTERNAL, "LODGE_ACCESS_DENIED"),
        (limit_exceeded("sessions", 9, "max_sessions", 2), grpc.StatusCode.RESOURCE_EXHAUSTED, "LODGE_LIMIT_EXCEEDED"),
    ],
    ids=["unauthenticated", "access denied", "limit exceeded"],
)
def test_error_has_its_status_code_and_details(failed_call, error, code, condition):
    raised = failed_call(error)
    assert raised.code() is code
    details = rpc_status.from_call(raised)  # fails if the code or the text differs from the details
    assert details.message == raised.details() == str(error)
    assert error_info(raised.trailing_metadata()).metadata["errorClass"] == condition


def test_pyspark_waits_for_the_delay_and_retries(failed_call):
    waited = []

    def statement_limit(delay_seconds):
        return failed_call(limit_exceeded("running statements", 4, "max_statements", delay_seconds))

    attempts = iter([statement_limit(2.5), statement_limit(1)])
    for attempt in Retrying(DefaultPolicy(jitter=0), sleep=waited.append):
        with attempt:
            error = next(attempts, None)
            if error is not None:
                raise error
    assert waited == [2.5, 1]


def test_pyspark_does_not_retry_errors_without_a_delay(failed_call):
    for error in (unauthenticated("the token has expired"), limit_exceeded("bytes", 4, "max_plan_bytes", None)):
        assert not DefaultPolicy().can_retry(failed_call(error))


def test_lone_surrogate_is_replaced():
    status = error_status(GatewayError("LODGE_X", "42000", "a\ud800b", {"a": "a\udc00b"}))
    assert status.details == "[LODGE_X] a?b SQLSTATE: 42000"
    assert json.loads(error_info(status.trailing).metadata["messageParameters"]) == {"a": "a?b"}


def test_relation_name_is_quoted_as_in_spark():
    names = [
        table_not_found("a`b"),
        table_not_found("dfs.tmp.t", "", ["dfs", "tmp", "t"]),
        AlreadyExistsError("a`b", "dfs.tmp"),
    ]
    assert [error.parameters["relationName"] for error in names] == ["`a``b`", "`dfs`.`tmp`.`t`", "`dfs`.`tmp`.`a``b`"]


@pytest.mark.parametrize(
    ("method", "message"),
    [
        ("ExecutePlan", base_pb2.ExecutePlanRequest),
        ("AnalyzePlan", base_pb2.AnalyzePlanRequest),
        ("AddArtifacts", base_pb2.AddArtifactsRequest),
        ("Config", base_pb2.ConfigRequest),
        ("FetchErrorDetails", base_pb2.FetchErrorDetailsRequest),
    ],
)
def test_client_type_is_read_from_every_request(method, message):
    request = message(session_id=str(uuid.uuid4()), client_type=SCALA)
    assert read_request(request.SerializeToString(), method).client_type == SCALA
    assert read_request(request.SerializeToString(), "MethodOfTomorrow").client_type == ""


def test_client_type_is_known_if_the_session_id_is_invalid():
    index = index_request(base_pb2.ConfigRequest(session_id="x", client_type=SCALA).SerializeToString(), "Config")
    assert is_jvm(index.client_type)


def test_jvm_client_with_a_long_name_is_recognized():
    request = base_pb2.ConfigRequest(client_type="x" * 3000 + SCALA).SerializeToString()
    client_type = index_request(request, "Config").client_type
    assert is_jvm(client_type)
    assert len(client_type) == 2048


def test_user_id_over_1024_bytes_is_refused():
    def request(user_id):
        message = base_pb2.ConfigRequest(session_id=str(uuid.uuid4()))
        message.user_context.user_id = user_id
        return message.SerializeToString()

    assert read_request(request("ü" * 512), "Config").key.principal == "ü" * 512
    with pytest.raises(GatewayError) as raised:
        read_request(request("ü" * 512 + "x"), "Config")
    assert (raised.value.condition, raised.value.sql_state) == ("LODGE_USER_ID_TOO_LONG", "54000")
    assert "The user id has 1,025 bytes." in raised.value.text
