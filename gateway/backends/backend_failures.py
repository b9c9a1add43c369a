"""Converts the errors of backends for clients.

Most errors are forwarded unchanged. There are five exceptions:

1. Scan errors. Spark adds Python and JVM stack traces to an error that the engine raises. The client receives only the
   error message of the engine, with its own condition. The traceback is written to the log (event ``scan_failed``).
2. Errors without details. The client receives ``LODGE_BACKEND_FAILED`` with the message of the backend, or
   ``CONNECT_INVALID_PLAN.CANNOT_PARSE`` if the backend could not parse the request.
3. Unreachable backends. The error message contains the address of the backend.
4. Executors that lack a package which scans need. The client receives ``LODGE_BACKEND_PYTHON``.
5. Values of partition columns that cannot be part of the name of a directory. The client receives
   ``LODGE_PARTITION_VALUE``, because Spark does not say which column has such a value.

Spark truncates the text of a status, so the error report of the engine can be missing from the text. In this case, the
gateway fetches the error details from the backend. The backend returns the details only once, so the gateway stores
them for the client.

Guarantees:

1. Only errors of Python workers are searched for a report, so values in other errors cannot forge one.
2. The stored details occupy at most 16 MiB. A session with many errors does not displace the details of sessions with
   fewer. Details over 256 KiB are neither searched nor stored. The client then
   receives a status without an ``errorId``, so it does not request them.
3. The traceback in the log has at most 64 KiB, and at most 1,000 characters in each line.
"""

import re
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import unquote

import grpc
import structlog
from google.protobuf.message import DecodeError
from grpc import aio
from pyspark.sql.connect.proto import base_pb2

from engine.error_report import ErrorReport, find_report
from gateway.backends.backends import SERVICE, Backend
from gateway.errors import ScanFailedError, backend_failed, executor_python, invalid_request, partition_value
from gateway.messages.error_status import (
    Metadata,
    Status,
    error_info,
    error_status,
    forwardable_status,
    has_details,
    without_error_id,
)
from gateway.messages.requests import SessionKey

_DETAILS_SECONDS = 5.0
_CUT_OFF_UTF16_UNITS = 2048
_MAX_DETAILS_BYTES = 256 * 1024
_MAX_KEPT_BYTES = 16 * 1024 * 1024
_ENTRY_BYTES = 1024
_MAX_LOGGED_CHARACTERS = 64 * 1024
_MAX_LINE_CHARACTERS = 1000
_WITHOUT_DETAILS = frozenset({grpc.StatusCode.CANCELLED, grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN})
_UNPARSABLE = ("Invalid protobuf byte sequence", "Failed to read message", "Protocol message")
_WORKER_CONDITIONS = frozenset({"PYTHON_DATA_SOURCE_ERROR", "PYTHON_EXCEPTION"})
"""The conditions of errors that were raised in a Python worker."""
_WRITE_FAILED = "TASK_WRITE_FAILED"
_WRAPPER_CONDITIONS = frozenset({"FAILED_READ_FILE", _WRITE_FAILED})
"""The conditions of errors that can be caused by an error of a Python worker. A subclass may follow."""
_MISSING_MODULE = re.compile(r"^ModuleNotFoundError: No module named '(?P<module>engine|numpy|pyarrow)\b", re.MULTILINE)
"""The error of a worker that cannot load the reader of a scan."""
_LOADING = (", in read_command\n", '"engine/', "/engine/")
"""Texts of which one is in the traceback of such an error."""
_NO_DIRECTORY = re.compile(r"Mkdirs failed to create (?P<path>.+?)  ?\(exists=", re.DOTALL)
"""The error of Hadoop for a directory that it cannot create."""
_MAX_NAME_BYTES = 255
"""The maximum length of the name of a directory in the file systems of Linux."""
_SUBQUERY_FAILED = "Exception thrown in awaitResult"
"""The text of an error without a condition, which Spark raises if a subquery fails."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class FailedCall:
    """A call of a client that failed at the backend.

    Attributes:
        key: The session of the call.
        backend: The backend of the session.
        metadata: The metadata of the client's call.
        client_type: The client type in the request.
    """

    key: SessionKey
    backend: Backend
    metadata: Metadata
    client_type: str


class BackendFailures:
    """Converts backend errors for clients, and stores fetched error details."""

    def __init__(self) -> None:
        self._kept: dict[SessionKey, OrderedDict[str, bytes]] = {}
        self._bytes_by_session: dict[SessionKey, int] = {}
        self._kept_bytes = 0

    async def status(self, error: aio.AioRpcError, call: FailedCall) -> Status:
        """Return the status to send to the client."""
        trailing: Metadata = tuple(error.trailing_metadata() or ())
        words = error.details() or ""
        if not has_details(trailing):
            return _without_details(error, words, call)
        info = error_info(trailing)
        metadata: Mapping[str, str] = {} if info is None else info.metadata
        condition, error_id = _condition(metadata, words), metadata.get("errorId", "")
        report = _find_scan_report(error)
        if error_id in self._kept.get(call.key, ()) or (report is None and not _may_lack_report(condition, words)):
            return forwardable_status(error.code(), words, trailing)
        details = await self._details(error_id, call)
        in_details, text = _report_in(details)
        report = in_details or report
        if report is not None:
            _log(report, text or words)
            return error_status(_scan_error(report), call.client_type)
        module = _missing_module(details) if condition in _WORKER_CONDITIONS else None
        if module is not None:
            return error_status(executor_python(call.backend.address, module), call.client_type)
        column = _impossible_directory(details) if condition == _WRITE_FAILED else None
        if column is not None:
            return error_status(partition_value(column), call.client_type)
        if len(details) > _MAX_DETAILS_BYTES:
            trailing = without_error_id(trailing)
        elif base_pb2.FetchErrorDetailsResponse.FromString(details).errors:
            self._keep(call.key, error_id, details)
        return forwardable_status(error.code(), words, trailing)

    def take_details(self, key: SessionKey, error_id: str) -> bytes | None:
        """Return and remove stored error details.

        Returns:
            The details. None if the gateway has not fetched the details of this error.
        """
        details = self._kept.get(key, OrderedDict()).pop(error_id, None)
        if details is not None:
            self._count_bytes(key, -len(details) - _ENTRY_BYTES)
        return details

    def _keep(self, key: SessionKey, error_id: str, details: bytes) -> None:
        """Store error details. If there are too many, drop the oldest of the session that occupies most bytes."""
        self.take_details(key, error_id)
        self._kept.setdefault(key, OrderedDict())[error_id] = details
        self._count_bytes(key, len(details) + _ENTRY_BYTES)
        while self._kept_bytes > _MAX_KEPT_BYTES:
            largest = max(self._bytes_by_session, key=self._bytes_by_session.__getitem__)
            self.take_details(largest, next(iter(self._kept[largest])))

    def _count_bytes(self, key: SessionKey, change: int) -> None:
        self._kept_bytes += change
        self._bytes_by_session[key] = self._bytes_by_session.get(key, 0) + change
        if not self._kept[key]:
            del self._kept[key], self._bytes_by_session[key]

    @staticmethod
    async def _details(error_id: str, call: FailedCall) -> bytes:
        """Fetch the details of an error from the backend. Empty if there are no details."""
        if not error_id:
            return b""
        request = base_pb2.FetchErrorDetailsRequest(
            session_id=call.key.client_session_id, error_id=error_id, client_type=call.client_type
        )
        request.user_context.user_id = call.key.principal
        fetch = call.backend.unary(SERVICE + "FetchErrorDetails")
        try:
            details: bytes = await fetch(request.SerializeToString(), metadata=call.metadata, timeout=_DETAILS_SECONDS)
        except aio.AioRpcError as error:
            log.warning("error_details_not_fetched", reason=f"{error.code().name}: {error.details()}")
            return b""
        return details


def _find_scan_report(error: aio.AioRpcError) -> ErrorReport | None:
    """Return the report of a scan in the text of a backend error.

    Return None if the error has no report, or if Spark has truncated the text before the report.
    """
    words = error.details() or ""
    info = error_info(tuple(error.trailing_metadata() or ()))
    condition = "" if info is None else _condition(info.metadata, words)
    return find_report(words) if condition in _WORKER_CONDITIONS else None


def without_traceback(response: bytes) -> bytes:
    """Return a ``FetchErrorDetails`` response without stack traces for scan errors.

    Other responses are returned unchanged.
    """
    report, _ = _report_in(response)
    if report is None:
        return response
    answer = base_pb2.FetchErrorDetailsResponse.FromString(response)
    failure = _scan_error(report)
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


def _scan_error(report: ErrorReport) -> ScanFailedError:
    return ScanFailedError(report.condition, report.sql_state, report.text, report.parameters)


def _without_details(error: aio.AioRpcError, words: str, call: FailedCall) -> Status:
    if error.code() in _WITHOUT_DETAILS:
        if words.removeprefix("INTERNAL: ").startswith(_UNPARSABLE):
            return error_status(invalid_request(f"the backend answered {words!r}"), call.client_type)
        return error_status(backend_failed(call.backend.address, words), call.client_type)
    if error.code() is grpc.StatusCode.UNAVAILABLE:
        words = f"Backend {call.backend.address} is unavailable, try again: {words}"
    return forwardable_status(error.code(), words, tuple(error.trailing_metadata() or ()))


def _condition(metadata: Mapping[str, str], words: str) -> str:
    """Return the condition of an error with details.

    Spark omits the condition from the metadata if the parameters are long. The text always begins with it.
    """
    return metadata.get("errorClass") or words.partition("]")[0].removeprefix("[")


def _may_lack_report(condition: str, words: str) -> bool:
    """Return whether an error may have a report that is missing from its text."""
    if condition.partition(".")[0] in _WRAPPER_CONDITIONS or words.startswith(_SUBQUERY_FAILED):
        return True
    if condition in _WORKER_CONDITIONS and _MISSING_MODULE.search(words):
        return True
    is_cut_off = len(words.encode("utf-16-le", "replace")) // 2 >= _CUT_OFF_UTF16_UNITS
    return condition in _WORKER_CONDITIONS and is_cut_off


def _report_in(details: bytes) -> tuple[ErrorReport | None, str]:
    """Return the report in error details, and the text of the error that contains it."""
    if len(details) > _MAX_DETAILS_BYTES or b"ScanError" not in details:
        return None, ""
    try:
        errors = base_pb2.FetchErrorDetailsResponse.FromString(details).errors
    except DecodeError:
        return None, ""
    for error in errors:
        if error.spark_throwable.error_class in _WORKER_CONDITIONS:
            report = find_report(error.message)
            if report is not None:
                return report, error.message
    return None, ""


def _impossible_directory(details: bytes) -> str | None:
    """Return the partition column with a value that no directory can have in its name. None if there is none."""
    if len(details) > _MAX_DETAILS_BYTES or b"Mkdirs failed" not in details:
        return None
    for error in base_pb2.FetchErrorDetailsResponse.FromString(details).errors:
        found = _NO_DIRECTORY.search(error.message)
        for name in found["path"].split("/") if found else ():
            column, equals, _ = name.partition("=")
            if equals and ("\0" in name or len(name.encode()) > _MAX_NAME_BYTES):
                return unquote(column)
    return None


def _missing_module(details: bytes) -> str | None:
    """Return the module whose absence prevents executors from loading the reader of a scan. None if there is none."""
    if len(details) > _MAX_DETAILS_BYTES or b"ModuleNotFoundError" not in details:
        return None
    for error in base_pb2.FetchErrorDetailsResponse.FromString(details).errors:
        found = _MISSING_MODULE.search(error.message)
        if found is not None and any(text in error.message[: found.start()] for text in _LOADING):
            return found["module"]
    return None


def _log(report: ErrorReport, text: str) -> None:
    """Log the error report and the traceback of a failed scan.

    The traceback is logged as a list of lines, so that its text cannot be mistaken for a log line.
    """
    lines = text[:_MAX_LOGGED_CHARACTERS].splitlines()
    log.warning(
        "scan_failed",
        condition=report.condition,
        reason=report.text,
        parameters=dict(report.parameters),
        traceback=[line[:_MAX_LINE_CHARACTERS] for line in lines],
    )
