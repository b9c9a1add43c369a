"""Converts the errors of backends for clients.

Most errors are forwarded unchanged. There are three exceptions:

1. Scan errors. Spark adds Python and JVM stack traces to an error that the engine raises. The client receives only the
   error message of the engine, with its own condition. The traceback is written to the log (event ``scan_failed``).
2. Errors without details. The client receives ``LODGE_BACKEND_FAILED`` with the message of the backend, or
   ``CONNECT_INVALID_PLAN.CANNOT_PARSE`` if the request cannot be parsed.
3. Unreachable backends. The error message contains the address of the backend.

Spark truncates the text of a status, so the error report of the engine can be missing from the text. In this case, the
gateway fetches the error details from the backend. The backend returns the details only once, so the gateway stores
them for the client.
"""

from collections import OrderedDict
from dataclasses import dataclass

import grpc
import structlog
from google.protobuf.message import DecodeError, Message
from grpc import aio
from pyspark.sql.connect.proto import base_pb2

from engine.error_report import ErrorReport, find_report
from gateway.backends import SERVICE, Backend
from gateway.error_status import Metadata, Status, error_info, error_status, forwardable, has_details
from gateway.errors import ScanFailedError, backend_failed, invalid_request
from gateway.requests import SessionKey

_DETAILS_SECONDS = 5.0
_CUT_OFF_CHARACTERS = 2048
_MAX_KEPT_BYTES = 16 * 1024 * 1024
_MAX_LOGGED_LINES = 400
_WITHOUT_DETAILS = frozenset({grpc.StatusCode.CANCELLED, grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN})
_UNPARSABLE = ("Invalid protobuf byte sequence", "Failed to read message", "Protocol message")
_MESSAGES: dict[str, type[Message]] = {
    "AnalyzePlan": base_pb2.AnalyzePlanRequest,
    "Config": base_pb2.ConfigRequest,
    "ExecutePlan": base_pb2.ExecutePlanRequest,
}
_PYTHON = ("[PYTHON_", "PythonException", "Python worker")

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class FailedCall:
    """A call of a client that failed at the backend.

    Attributes:
        key: The session of the call.
        backend: The backend of the session.
        metadata: The metadata of the client's call.
        client_type: The client type in the request.
        method: The name of the method.
        request: The request. For a stream of requests, the first request.
    """

    key: SessionKey
    backend: Backend
    metadata: Metadata
    client_type: str
    method: str = ""
    request: bytes = b""

    def is_parsable(self) -> bool:
        """Return whether the request can be parsed. Always True for unknown methods."""
        message = _MESSAGES.get(self.method)
        try:
            return message is None or message.FromString(self.request) is not None
        except DecodeError:
            return False


class BackendFailures:
    """Converts backend errors for clients, and stores fetched error details."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[SessionKey, str], bytes] = OrderedDict()
        self._kept_bytes = 0

    async def status(self, error: aio.AioRpcError, call: FailedCall) -> Status:
        """Return the status to send to the client."""
        trailing = tuple(error.trailing_metadata() or ())
        words = error.details() or ""
        if not has_details(trailing):
            return _without_details(error, words, call)
        report = find_report(words)
        details: bytes | None = None
        if report is None and _may_lack_report(words):
            details = await self._details(trailing, call)
            report = _report_in(details)
            if report is None and details is not None:
                self._keep(call.key, _error_id(trailing), details)
        if report is None:
            return Status(error.code(), words, forwardable(trailing))
        if details is None:
            details = await self._details(trailing, call)
        _log(report, words, details)
        failure = ScanFailedError(report.condition, report.sql_state, report.text, report.parameters)
        return error_status(failure, call.client_type)

    def take_details(self, key: SessionKey, error_id: str) -> bytes | None:
        """Return and remove stored error details.

        Returns:
            The details. None if the gateway has not fetched the details of this error.
        """
        details = self._kept.pop((key, error_id), None)
        self._kept_bytes -= len(details or b"")
        return details

    def _keep(self, key: SessionKey, error_id: str, details: bytes) -> None:
        self._kept[key, error_id] = details
        self._kept_bytes += len(details)
        while self._kept_bytes > _MAX_KEPT_BYTES:
            _, oldest = self._kept.popitem(last=False)
            self._kept_bytes -= len(oldest)

    @staticmethod
    async def _details(trailing: Metadata, call: FailedCall) -> bytes | None:
        """Fetch the details of an error from the backend. None if there are no details."""
        error_id = _error_id(trailing)
        if not error_id:
            return None
        request = base_pb2.FetchErrorDetailsRequest(
            session_id=call.key.client_session_id, error_id=error_id, client_type=call.client_type
        )
        request.user_context.user_id = call.key.principal
        fetch = call.backend.unary(SERVICE + "FetchErrorDetails")
        try:
            details: bytes = await fetch(request.SerializeToString(), metadata=call.metadata, timeout=_DETAILS_SECONDS)
        except aio.AioRpcError as error:
            log.warning("error_details_not_fetched", reason=f"{error.code().name}: {error.details()}")
            return None
        return details


def without_traceback(response: bytes) -> bytes:
    """Return a ``FetchErrorDetails`` response without stack traces for scan errors.

    Other responses are returned unchanged.
    """
    report = _report_in(response)
    if report is None:
        return response
    answer = base_pb2.FetchErrorDetailsResponse.FromString(response)
    failure = ScanFailedError(report.condition, report.sql_state, report.text, report.parameters)
    root = base_pb2.FetchErrorDetailsResponse.Error(
        error_type_hierarchy=["org.apache.spark.SparkException", "java.lang.Exception", "java.lang.Throwable"],
        message=str(failure),
    )
    root.spark_throwable.error_class = failure.condition
    root.spark_throwable.sql_state = failure.sql_state
    root.spark_throwable.message_parameters.update(failure.parameters)
    del answer.errors[:]
    answer.errors.append(root)
    answer.root_error_idx = 0
    return answer.SerializeToString()


def _without_details(error: aio.AioRpcError, words: str, call: FailedCall) -> Status:
    if error.code() in _WITHOUT_DETAILS:
        if any(each in words for each in _UNPARSABLE) or not call.is_parsable():
            return error_status(invalid_request(f"the backend answered {words!r}"), call.client_type)
        return error_status(backend_failed(call.backend.address, words), call.client_type)
    if error.code() is grpc.StatusCode.UNAVAILABLE:
        words = f"Backend {call.backend.address} is unavailable, try again: {words}"
    return Status(error.code(), words, forwardable(tuple(error.trailing_metadata() or ())))


def _may_lack_report(words: str) -> bool:
    """Return whether the text of a Python error is truncated and may lack a report."""
    return len(words) >= _CUT_OFF_CHARACTERS and any(each in words for each in _PYTHON)


def _error_id(trailing: Metadata) -> str:
    info = error_info(trailing)
    return "" if info is None else info.metadata.get("errorId", "")


def _report_in(details: bytes | None) -> ErrorReport | None:
    if not details or b"ScanError" not in details:
        return None
    errors = base_pb2.FetchErrorDetailsResponse.FromString(details).errors
    return next((report for each in errors if (report := find_report(each.message)) is not None), None)


def _log(report: ErrorReport, words: str, details: bytes | None) -> None:
    """Log the error report and the traceback of a failed scan.

    The traceback is logged as a list of lines, so that its text cannot be mistaken for a log line.
    """
    if details is not None:
        errors = base_pb2.FetchErrorDetailsResponse.FromString(details).errors
        words = next((each.message for each in errors if find_report(each.message) is not None), words)
    log.warning(
        "scan_failed",
        condition=report.condition,
        reason=report.text,
        parameters=dict(report.parameters),
        traceback=words.splitlines()[:_MAX_LOGGED_LINES],
    )
