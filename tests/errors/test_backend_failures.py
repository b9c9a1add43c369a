"""Failures of a backend that pass to the client, or become errors of Lodge."""

import asyncio
import json
import uuid

import grpc
import pytest
import structlog
from google.protobuf import any_pb2
from google.rpc import error_details_pb2, status_pb2
from grpc import aio
from pyspark.sql.connect.proto import base_pb2

from engine.context import ErrorContext
from engine.error_report import ScanError
from engine.errors import ValueConversionError
from gateway.backends.backend_failures import BackendFailures, FailedCall, without_traceback
from gateway.errors import BackendError, GatewayError, session_closed
from gateway.messages.error_status import STATUS_DETAILS_KEY, error_info, session_gone_condition
from gateway.messages.requests import SessionKey

SQL_EXCEPTION = "org.apache.spark.SparkSQLException"
PYTHON_EXCEPTION = "org.apache.spark.api.python.PythonException"
CANCELLED, INTERNAL, UNKNOWN = grpc.StatusCode.CANCELLED, grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN


def failure(text, *, reason=SQL_EXCEPTION, code=INTERNAL, **metadata):
    """Return an error of a backend. It has details if metadata is given."""
    info = error_details_pb2.ErrorInfo(reason=reason, domain="org.apache.spark", metadata=metadata)
    detail = any_pb2.Any()
    detail.Pack(info)
    status = status_pb2.Status(code=code.value[0], message=text, details=[detail])
    trailing = aio.Metadata((STATUS_DETAILS_KEY, status.SerializeToString())) if metadata else aio.Metadata()
    return aio.AioRpcError(code, aio.Metadata(), trailing, text)


def scan_failure():
    """Return the error of a scan."""
    context = ErrorContext("dfs", "logs/a.csv", "line 3")
    return ScanError(ValueConversionError("id", "no", "int32", context))


class FakeBackend:
    """A backend that answers only FetchErrorDetails, once for each error."""

    address = "sc://backend:15002"
    error_class = "PYTHON_EXCEPTION"

    def __init__(self, **details):
        self.details = details
        self.requests = []

    def unary(self, method):
        assert method.endswith("/FetchErrorDetails")
        return self._fetch

    async def _fetch(self, request, **_):
        self.requests.append(base_pb2.FetchErrorDetailsRequest.FromString(request))
        response = base_pb2.FetchErrorDetailsResponse()
        text = self.details.pop(self.requests[-1].error_id, None)
        if text is not None:
            response.root_error_idx = 0
            response.errors.add(message="Job aborted.", cause_idx=1, error_type_hierarchy=["java.lang.Exception"])
            cause = response.errors.add(message=text, error_type_hierarchy=[PYTHON_EXCEPTION])
            cause.spark_throwable.error_class = self.error_class
        return response.SerializeToString()


def convert(error, backend=None, *, client_type="", failures=None):
    """Return the status that a client gets, and the metadata of its error."""
    key = SessionKey("ann", str(uuid.uuid4()))
    call = FailedCall(key, backend or FakeBackend(), (), client_type)
    status = asyncio.run((failures or BackendFailures()).status(error, call))
    info = error_info(status.trailing)
    return status, dict(info.metadata) if info is not None else None


# The end of a session: only the condition of the backend's own error counts.


@pytest.mark.parametrize(
    "error",
    [
        failure("Cannot cast 'INVALID_HANDLE.SESSION_CLOSED'", errorClass="CAST_INVALID_INPUT", sqlState="22018"),
        failure(
            "x", errorClass="USER_RAISED_EXCEPTION", messageParameters='{"errorMessage":"INVALID_HANDLE.SESSION_"}'
        ),
        failure("x", reason="org.apache.spark.SparkRuntimeException", errorClass="INVALID_HANDLE.SESSION_CLOSED"),
        failure("INVALID_HANDLE.SESSION_CLOSED"),
        GatewayError("LODGE_NOT_A_TABLE", "42809", "[INVALID_HANDLE.SESSION_CLOSED] was not made by CREATE TABLE."),
        BackendError(failure("INVALID_HANDLE.SESSION_NOT_FOUND", errorClass="PARSE_SYNTAX_ERROR"), "sc://b:1"),
    ],
    ids=["value", "parameter", "raise_error", "no details", "own text", "own statement"],
)
def test_text_like_a_closed_session_ends_no_session(error):
    assert not session_gone_condition(error)


@pytest.mark.parametrize(
    "error",
    [
        failure("The session is closed.", errorClass="INVALID_HANDLE.SESSION_CLOSED"),
        failure("The session changed.", errorClass="INVALID_HANDLE.SESSION_CHANGED"),
        BackendError(failure("Not found.", errorClass="INVALID_HANDLE.SESSION_NOT_FOUND"), "sc://b:1"),
        session_closed("f47ac10b-58cc-4372-a567-0e02b2c3d479"),
    ],
    ids=["closed", "changed", "own statement", "own record"],
)
def test_closed_session_ends_the_session(error):
    assert session_gone_condition(error)


def test_unreadable_details_end_no_session():
    trailing = aio.Metadata((STATUS_DETAILS_KEY, b"\xff INVALID_HANDLE.SESSION_CLOSED"))
    assert not session_gone_condition(aio.AioRpcError(INTERNAL, aio.Metadata(), trailing, "x"))


# Failures without details


@pytest.mark.parametrize("code", [CANCELLED, INTERNAL, UNKNOWN])
def test_failure_without_details_keeps_the_backends_text(code):
    status, info = convert(failure("Java heap space", code=code))
    assert (info["errorClass"], info["sqlState"]) == ("LODGE_BACKEND_FAILED", "58000")
    assert "Backend sc://backend:15002 failed: Java heap space." in status.details
    assert json.loads(info["messageParameters"]) == {"backend": "sc://backend:15002", "reason": "Java heap space"}


def test_request_that_the_backend_cannot_parse_is_an_invalid_request():
    status, info = convert(failure("INTERNAL: Invalid protobuf byte sequence", code=CANCELLED))
    assert info["errorClass"] == "CONNECT_INVALID_PLAN.CANNOT_PARSE"
    assert "Invalid protobuf byte sequence" in status.details


def test_text_that_only_contains_the_words_of_the_parser_is_a_backend_failure():
    _, info = convert(failure("No file 'Protocol message'", code=UNKNOWN))
    assert info["errorClass"] == "LODGE_BACKEND_FAILED"


CONDITIONS = ["INVALID_CURSOR.DISCONNECTED", "INVALID_HANDLE.SESSION_NOT_FOUND", "INVALID_HANDLE.OPERATION_NOT_FOUND"]


@pytest.mark.parametrize("condition", CONDITIONS)
def test_data_in_a_text_of_spark_does_not_read_like_a_condition_on_which_clients_act(condition):
    """A query can raise an error with any text and any condition, but not of the class of session errors."""
    text = f"[USER_RAISED_EXCEPTION] {condition} SQLSTATE: P0001"
    for error_class in ("USER_RAISED_EXCEPTION", condition):
        raised = failure(text, reason="org.apache.spark.SparkRuntimeException", errorClass=error_class)
        status, metadata = convert(raised)
        assert condition not in status.details
        (detail,) = [value for key, value in status.trailing if key == STATUS_DETAILS_KEY]
        assert status_pb2.Status.FromString(detail).message == status.details
        assert metadata["errorClass"] == error_class


@pytest.mark.parametrize("condition", CONDITIONS)
def test_errors_of_sessions_and_operations_are_unchanged(condition):
    text = f"[{condition}] The handle is invalid. SQLSTATE: HY000"
    status, _ = convert(failure(text, errorClass=condition))
    assert status.details == text


def test_other_failures_pass_through():
    error = failure("so it failed", code=grpc.StatusCode.RESOURCE_EXHAUSTED)
    assert convert(error)[0] == (grpc.StatusCode.RESOURCE_EXHAUSTED, "so it failed", ())
    details = failure("[DIVIDE_BY_ZERO]", errorClass="DIVIDE_BY_ZERO", errorId="1")
    assert convert(details)[0] == (INTERNAL, "[DIVIDE_BY_ZERO]", tuple(details.trailing_metadata()))


# Reports of scans


def python_failure(text, error_class="PYTHON_EXCEPTION", error_id="e1"):
    return failure(text, reason=PYTHON_EXCEPTION, sqlState="38000", errorId=error_id, errorClass=error_class)


def spark_text_of(error):
    """Return the text that Spark sends for an exception in a Python worker."""
    worker = f'Traceback (most recent call last):\n  File "x.py", line 1\nengine.error_report.ScanError: {error}\n'
    return f"[PYTHON_EXCEPTION] An exception was thrown from the Python worker: {worker} SQLSTATE: 38000"


@pytest.mark.parametrize("client_type", ["_SPARK_CONNECT_PYTHON spark/4.3.0", "_SPARK_CONNECT_SCALA jvm/17"])
def test_report_of_a_scan_replaces_the_failure(client_type):
    text = spark_text_of(scan_failure())
    with structlog.testing.capture_logs() as logs:
        status, info = convert(python_failure(text[:2045] + "..."), FakeBackend(e1=text), client_type=client_type)
    sentence = "'logs/a.csv' in workspace 'dfs', line 3: column 'id' must be int32, but the value is 'no'."
    assert status.details.startswith(f"[LODGE_INVALID_VALUE] {sentence}")
    assert status.details.endswith(" SQLSTATE: 22018")
    assert "Traceback" not in status.details
    assert json.loads(info.pop("messageParameters")) == {
        "file": "logs/a.csv",
        "workspace": "dfs",
        "position": "line 3",
        "column": "id",
        "value": "'no'",
        "expectedType": "int32",
    }
    assert (info["errorClass"], info["sqlState"], "errorId" in info) == ("LODGE_INVALID_VALUE", "22018", False)
    assert ("SparkException" in info["classes"]) == ("jvm" in client_type)
    (event,) = [each for each in logs if each["event"] == "scan_failed"]
    assert any("ValueConversionError" in line for line in event["traceback"])


def test_condition_is_read_from_the_text_if_spark_omits_it():
    text = spark_text_of(scan_failure())
    _, info = convert(failure(text, sqlState="38000", errorId="e1"), FakeBackend(e1=text))
    assert info["errorClass"] == "LODGE_INVALID_VALUE"
    _, info = convert(failure(f"[DIVIDE_BY_ZERO] {text}", sqlState="22012", errorId="e1"), FakeBackend(e1=text))
    assert "errorClass" not in info


def test_report_after_the_cut_is_found_in_the_details():
    text = spark_text_of(scan_failure())
    cut = "[PYTHON_EXCEPTION] An exception was thrown from the Python worker: " + "x" * 1981
    status, info = convert(python_failure(cut), FakeBackend(e1=text))
    assert info["errorClass"] == "LODGE_INVALID_VALUE"
    assert status.details.startswith("[LODGE_INVALID_VALUE] 'logs/a.csv'")


def test_details_without_a_report_are_stored_for_one_request():
    cut = "[PYTHON_EXCEPTION] An exception was thrown from the Python worker: " + "x" * 1981
    failures, backend = BackendFailures(), FakeBackend(e1="ValueError: of a user's function")
    error = python_failure(cut)
    key = SessionKey("ann", str(uuid.uuid4()))
    status = asyncio.run(failures.status(error, FailedCall(key, backend, (), "")))
    assert status == (INTERNAL, cut, tuple(error.trailing_metadata()))
    kept = failures.take_details(key, "e1")
    assert "of a user's function" in base_pb2.FetchErrorDetailsResponse.FromString(kept).errors[1].message
    assert failures.take_details(key, "e1") is None


CUT = "[PYTHON_EXCEPTION] An exception was thrown from the Python worker: " + "x" * 1981


def status_of(failures, backend, key, error_id="e1"):
    error = python_failure(CUT, error_id=error_id)
    return asyncio.run(failures.status(error, FailedCall(key, backend, (), "")))


def test_second_conversion_keeps_the_stored_details():
    failures, backend, key = BackendFailures(), FakeBackend(e1="ValueError: x"), SessionKey("ann", str(uuid.uuid4()))
    status_of(failures, backend, key)
    status_of(failures, backend, key)
    assert len(backend.requests) == 1
    assert b"ValueError: x" in failures.take_details(key, "e1")


def test_details_without_errors_are_not_stored():
    failures, key = BackendFailures(), SessionKey("ann", str(uuid.uuid4()))
    status_of(failures, FakeBackend(), key)
    assert failures.take_details(key, "e1") is None


def test_stored_details_are_bounded_and_the_latest_ones_remain():
    failures, key = BackendFailures(), SessionKey("ann", str(uuid.uuid4()))
    for number in range(100):
        for _ in range(2):
            status_of(failures, FakeBackend(**{f"e{number}": "x" * 200_000}), key, f"e{number}")
        if number % 3:
            assert failures.take_details(key, f"e{number}")
    found = [number for number in range(100) if failures.take_details(key, f"e{number}")]
    assert found == list(range(0, 100, 3))
    assert failures._kept_bytes == 0
    for number in range(100):
        status_of(failures, FakeBackend(**{f"e{number}": "x" * 200_000}), key, f"e{number}")
    found = [number for number in range(100) if failures.take_details(key, f"e{number}")]
    assert found == list(range(100 - len(found), 100))
    assert 75 < len(found) < 84


def test_session_with_many_errors_keeps_the_details_of_others():
    failures, other, busy = BackendFailures(), *(SessionKey("ann", str(uuid.uuid4())) for _ in range(2))
    status_of(failures, FakeBackend(e1="ValueError: x"), other)
    for number in range(200):
        status_of(failures, FakeBackend(**{f"e{number}": "x" * 200_000}), busy, f"e{number}")
    assert failures.take_details(busy, "e199")
    assert failures.take_details(busy, "e0") is None
    assert b"ValueError: x" in failures.take_details(other, "e1")
    assert other not in failures._kept


def test_details_over_256_kib_are_not_announced_to_the_client():
    failures, key = BackendFailures(), SessionKey("ann", str(uuid.uuid4()))
    status = status_of(failures, FakeBackend(e1="x" * 300_000), key)
    assert status.details == CUT
    assert dict(error_info(status.trailing).metadata) == {"errorClass": "PYTHON_EXCEPTION", "sqlState": "38000"}
    assert failures.take_details(key, "e1") is None


def test_error_is_truncated_in_utf16_units():
    text = "[PYTHON_EXCEPTION] An exception was thrown from the Python worker: " + "\U0001f600" * 991
    _, info = convert(python_failure(text), FakeBackend(e1=spark_text_of(scan_failure())))
    assert info["errorClass"] == "LODGE_INVALID_VALUE"


def test_details_complete_a_truncated_report():
    text = spark_text_of(scan_failure())
    status, info = convert(python_failure(text[:230]), FakeBackend(e1=text))
    assert "'no'. Correct the file" in status.details
    assert json.loads(info["messageParameters"])["column"] == "id"


@pytest.mark.parametrize("error_class", ["USER_RAISED_EXCEPTION", "CAST_INVALID_INPUT"])
def test_other_errors_are_not_searched_for_a_report(error_class):
    text = spark_text_of(scan_failure())
    backend = FakeBackend(e1=text)
    status, _ = convert(python_failure(text, error_class), backend)
    assert (status.details, backend.requests) == (text, [])
    response = base_pb2.FetchErrorDetailsResponse(root_error_idx=0)
    response.errors.add(message=text).spark_throwable.error_class = error_class
    data = response.SerializeToString()
    assert without_traceback(data) is data


@pytest.mark.parametrize("error_class", ["PYTHON_EXCEPTION", "DIVIDE_BY_ZERO"])
def test_failed_write_is_a_failed_scan_if_its_cause_is_a_python_worker(error_class):
    backend = FakeBackend(e1=spark_text_of(scan_failure()))
    backend.error_class = error_class
    _, info = convert(python_failure("[TASK_WRITE_FAILED] x", "TASK_WRITE_FAILED"), backend)
    assert info["errorClass"] == ("LODGE_INVALID_VALUE" if "PYTHON" in error_class else "TASK_WRITE_FAILED")


def test_failed_subquery_is_a_failed_scan_if_its_cause_is_a_python_worker():
    error = failure("Exception thrown in awaitResult: ", errorId="e1")
    _, info = convert(error, FakeBackend(e1=spark_text_of(scan_failure())))
    assert info["errorClass"] == "LODGE_INVALID_VALUE"


def test_logged_traceback_is_bounded():
    text = spark_text_of(scan_failure()) + ("y" * 5000 + "\n") * 40
    with structlog.testing.capture_logs() as logs:
        convert(python_failure(text[:2048]), FakeBackend(e1=text))
    (event,) = [each for each in logs if each["event"] == "scan_failed"]
    assert max(map(len, event["traceback"])) == 1000
    assert sum(map(len, event["traceback"])) <= 64 * 1024


def test_short_failures_of_user_functions_need_no_request():
    backend = FakeBackend(e1="x")
    convert(python_failure("[PYTHON_EXCEPTION] ValueError: x"), backend)
    assert backend.requests == []


def test_details_of_a_scan_show_no_traceback():
    response = base_pb2.FetchErrorDetailsResponse(root_error_idx=0)
    error = response.errors.add(message=spark_text_of(scan_failure()), error_type_hierarchy=[PYTHON_EXCEPTION])
    error.spark_throwable.error_class = "PYTHON_EXCEPTION"
    error.stack_trace.add(declaring_class="a", method_name="b")
    answer = base_pb2.FetchErrorDetailsResponse.FromString(without_traceback(response.SerializeToString()))
    (root,) = answer.errors
    assert (answer.root_error_idx, list(root.stack_trace)) == (0, [])
    assert root.message.startswith("[LODGE_INVALID_VALUE] 'logs/a.csv'")
    assert (root.spark_throwable.error_class, root.spark_throwable.sql_state) == ("LODGE_INVALID_VALUE", "22018")
    assert root.spark_throwable.message_parameters["position"] == "line 3"


def test_other_details_are_unchanged():
    response = base_pb2.FetchErrorDetailsResponse(root_error_idx=0)
    response.errors.add(message="my ScanError")
    data = response.SerializeToString()
    assert without_traceback(data) is data
