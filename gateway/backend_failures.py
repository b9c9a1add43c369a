"""What a client gets when its backend fails.

Most failures pass through unchanged. Three kinds do not:

1. The report of a scan. Spark wraps what the engine raises in Python and JVM stack traces. The client gets the engine's
   sentence under its own condition, and the log gets the traceback (event ``scan_failed``).
2. A failure without details. The client gets ``LODGE_BACKEND_FAILED`` with the backend's words, or
   ``CONNECT_INVALID_PLAN.CANNOT_PARSE`` if the request cannot be parsed.
3. A backend that cannot be reached. The message names it.

Spark cuts the text of a status off, so a report may be missing from it. Then the gateway asks the backend for the
details of the error. The backend gives them only once, so the gateway keeps them for the client.
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
    """The client's call that failed at its backend.

    Attributes:
        key: The session of the call.
        backend: The backend of the session.
        metadata: The metadata of the client's call.
        client_type: What the client says of itself.
        method: The name of the method.
        request: The request; of a stream, the first one.
    """

    key: SessionKey
    backend: Backend
    metadata: Metadata
    client_type: str
    method: str = ""
    request: bytes = b""

    def is_parsable(self) -> bool:
        """Return whether the request is a message of its method. A message of an unknown method may be anything."""
        message = _MESSAGES.get(self.method)
        try:
            return message is None or message.FromString(self.request) is not None
        except DecodeError:
            return False


class BackendFailures:
    """Converts the failures of backends for clients, and keeps the details that it had to ask for."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[SessionKey, str], bytes] = OrderedDict()
        self._kept_bytes = 0

    async def status(self, error: aio.AioRpcError, call: FailedCall) -> Status:
        """Return the status for the client."""
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
        """Return the details of an error that the gateway asked for already, once; None if it did not."""
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
        """Ask the backend for the details of an error; None if it has none."""
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
    """Return the answer to FetchErrorDetails; for the report of a scan, one without the backend's stack traces."""
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
    """Return whether the text of a Python failure is cut off, so that a report may be missing."""
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
    """Log what the backend said. The traceback is a list of lines, so that no text can look like a log line."""
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
