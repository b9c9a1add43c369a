"""What a client is told when Lodge itself refuses something.

Why it exists: Lodge's errors must look like Spark's, so that PySpark raises ``AnalysisException`` or ``ParseException``
with an error class and SQLSTATE, never a bare gRPC failure and never a stack trace. The conversion to a gRPC status
happens here and nowhere else.

The tree, with what a client sees of each::

    GatewayError                 an AnalysisException
    ├── SyntaxRefusedError     a ParseException
    ├── CanceledError          the error Spark gives for an interrupted operation
    └── BackendError           the backend's own error for a call that Lodge made, passed on as it came

Source: Spark's ErrorUtils (``google.rpc.ErrorInfo`` with classes, errorClass and sqlState) and PySpark's
``pyspark.errors.exceptions.connect``; seed 001, 5.4.
"""

import json
import os
from collections.abc import Sequence

import grpc
from google.protobuf import any_pb2
from google.rpc import error_details_pb2, status_pb2
from grpc import aio

SESSION_CLOSED = "INVALID_HANDLE.SESSION_CLOSED"
STATUS_DETAILS_KEY = "grpc-status-details-bin"

Metadata = Sequence[tuple[str, str | bytes]]


class GatewayError(Exception):
    """An error for the client.

    Args:
        error_class: Stable name, in Spark's form.
        sql_state: Five characters.
        text: What happened, to which thing, what to do.
    """

    spark_class = "org.apache.spark.sql.AnalysisException"

    def __init__(self, error_class: str, sql_state: str, text: str) -> None:
        super().__init__(f"[{error_class}] {text} SQLSTATE: {sql_state}")
        self.error_class = error_class
        self.sql_state = sql_state

    def status(self) -> tuple[grpc.StatusCode, str, Metadata]:
        """The gRPC status: code, message, trailing metadata."""
        info = error_details_pb2.ErrorInfo(
            reason=self.spark_class,
            domain="org.apache.spark",
            metadata={
                "classes": json.dumps([self.spark_class, "java.lang.Exception", "java.lang.Throwable"]),
                "errorClass": self.error_class,
                "sqlState": self.sql_state,
                "messageParameters": "{}",
            },
        )
        detail = any_pb2.Any()
        detail.Pack(info)
        status = status_pb2.Status(code=grpc.StatusCode.INTERNAL.value[0], message=str(self), details=[detail])
        return grpc.StatusCode.INTERNAL, str(self), ((STATUS_DETAILS_KEY, status.SerializeToString()),)


class SyntaxRefusedError(GatewayError):
    spark_class = "org.apache.spark.sql.catalyst.parser.ParseException"


class CanceledError(GatewayError):
    spark_class = "org.apache.spark.SparkSQLException"

    def __init__(self) -> None:
        super().__init__("OPERATION_CANCELED", "HY008", "Operation has been canceled.")


class BackendError(GatewayError):
    """A call that Lodge made for a client failed at the backend; the client gets the backend's own words."""

    def __init__(self, error: aio.AioRpcError, backend: str) -> None:
        super().__init__("BACKEND", "XX000", error.details() or "")
        self.error = error
        self.backend = backend

    def status(self) -> tuple[grpc.StatusCode, str, Metadata]:
        return relayed_status(self.error, self.backend)


def final(error: GatewayError) -> GatewayError:
    """How a statement that is over has failed: never in a way that asks the client to try its end again."""
    if isinstance(error, BackendError) and error.error.code() is grpc.StatusCode.UNAVAILABLE:
        return GatewayError(
            "LODGE_BACKEND_LOST",
            "08006",
            f"The backend {error.backend} was lost while the statement ran; what it had begun is undone. Run it again "
            "once the backend is back; if its session is gone with it, in a new session.",
        )
    return error


def relayed_status(error: aio.AioRpcError, backend: str) -> tuple[grpc.StatusCode, str, Metadata]:
    """A backend's failure as the client is to see it: the same, but an unreachable backend is named."""
    trailing = tuple(error.trailing_metadata() or ())
    details = error.details() or ""
    if error.code() is grpc.StatusCode.UNAVAILABLE and not has_details(trailing):
        details = f"Backend {backend} is unavailable, try again: {details}"
    return error.code(), details, forwardable(trailing)


def forwardable(metadata: Metadata) -> Metadata:
    """Metadata without what each gRPC hop writes for itself; error details are kept."""
    return tuple(
        (key, value)
        for key, value in metadata
        if key == STATUS_DETAILS_KEY or not (key.startswith(("grpc-", ":")) or key in _HOP_KEYS)
    )


def has_details(metadata: Metadata) -> bool:
    return any(key == STATUS_DETAILS_KEY for key, _ in metadata)


_HOP_KEYS = frozenset({"user-agent", "content-type", "te", "date", "server"})


def invalid_request(what: str) -> GatewayError:
    """The client sent bytes that are no request (Spark: CONNECT_INVALID_PLAN)."""
    return GatewayError(
        "CONNECT_INVALID_PLAN.CANNOT_PARSE",
        "56K00",
        f"The Spark Connect request is invalid. Cannot parse it: {what}. Use a Spark Connect client of version 3.5 or "
        "later.",
    )


def invalid_session_id(session_id: str) -> GatewayError:
    """The session id is not a UUID (Spark: INVALID_HANDLE.FORMAT)."""
    return GatewayError(
        "INVALID_HANDLE.FORMAT",
        "HY000",
        f"The handle {session_id[:64]!r} is invalid. Handle must be an UUID string of the format "
        "'00112233-4455-6677-8899-aabbccddeeff'.",
    )


def session_closed(session_id: str) -> GatewayError:
    return GatewayError(
        SESSION_CLOSED,
        "HY000",
        f"The handle {session_id} is invalid. Session was closed. Start a new session.",
    )


def storage_unavailable(what: str) -> GatewayError:
    """What is stored cannot be read or changed now; the log has the reason."""
    return GatewayError(
        "LODGE_STORAGE_UNAVAILABLE",
        "58030",
        f"The gateway cannot reach the storage of {what} now. Try again later.",
    )


def storage_failed(error: OSError) -> GatewayError:
    """A step of a statement failed at the storage of session locations; the log has the paths."""
    reason = "" if error.errno is None else f": {os.strerror(error.errno)}"
    return GatewayError(
        "LODGE_STORAGE_UNAVAILABLE",
        "58030",
        f"The gateway cannot use the storage of session locations now{reason}. Try again later.",
    )


def not_impersonated(principal: str, reason: str) -> GatewayError:
    """Seed 001, 5.1.10.2: files are made under the OS user who is logged in, or not at all."""
    return GatewayError(
        "LODGE_IMPERSONATION", "28000", f"Principal [{principal}] cannot be served as an OS user: {reason}."
    )


def no_backend() -> GatewayError:
    return GatewayError("LODGE_NO_BACKEND", "08001", "No backend is configured for this principal. Ask for one.")


def fenced() -> GatewayError:
    """This replica was paused or cut off past its lease, so another may own its sessions now."""
    return GatewayError(
        "LODGE_LEASE_LOST",
        "58000",
        "This gateway replica lost its lease and touches no temporary table until it has renewed it. Try again.",
    )


def table_not_found(name: str, text: str) -> GatewayError:
    return GatewayError("TABLE_OR_VIEW_NOT_FOUND", "42P01", f"Table [{name}] is not found. {text}")
