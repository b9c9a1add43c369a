"""The errors that Lodge raises for a client.

Each error has a condition, a SQLSTATE, a text and parameters, as Spark's errors have. ``gateway/error_status.py``
converts an error to a gRPC status. ``docs/reference/errors.md`` explains every condition to users.

The tree, with the exception that PySpark raises for each class::

    GatewayError             AnalysisException    a condition of Lodge's own: LODGE_…
    ├── ScanFailedError      AnalysisException    what a scan reported through Spark
    ├── SparkError           AnalysisException    a condition of Spark
    │   ├── ParseError       ParseException
    │   └── CanceledError    UnknownException     as for an operation of Spark that was interrupted
    └── BackendError         the backend's own error for a call that Lodge made

Source: [spark-error-conditions], [spark-connect-client].
"""

import os
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import grpc
from grpc import aio

ANALYSIS_EXCEPTION = "org.apache.spark.sql.AnalysisException"
PARSE_EXCEPTION = "org.apache.spark.sql.catalyst.parser.ParseException"
SPARK_SQL_EXCEPTION = "org.apache.spark.SparkSQLException"

SESSION_CLOSED = "INVALID_HANDLE.SESSION_CLOSED"
MAX_USER_ID_BYTES = 1024

_SYNTAX_ERROR = re.compile(r"Syntax error at or near (.+?): (.+)", re.DOTALL)
_NO_PARAMETERS: Mapping[str, str] = MappingProxyType({})


class SparkCondition(NamedTuple):
    """A condition of Spark: its SQLSTATE, and the parameters of its message template."""

    sql_state: str
    parameters: frozenset[str]


def _condition(sql_state: str, *parameters: str) -> SparkCondition:
    return SparkCondition(sql_state, frozenset(parameters))


SPARK_CONDITIONS: Mapping[str, SparkCondition] = MappingProxyType(
    {
        "COLUMN_ALREADY_EXISTS": _condition("42711", "columnName"),
        "COLUMN_NOT_FOUND": _condition("42703", "colName", "caseSensitiveConfig"),
        "CONNECT_INVALID_PLAN.CANNOT_PARSE": _condition("56K00", "errorMsg"),
        "CREATE_VIEW_COLUMN_ARITY_MISMATCH.NOT_ENOUGH_DATA_COLUMNS": _condition(
            "21S01", "viewName", "viewColumns", "dataColumns"
        ),
        "CREATE_VIEW_COLUMN_ARITY_MISMATCH.TOO_MANY_DATA_COLUMNS": _condition(
            "21S01", "viewName", "viewColumns", "dataColumns"
        ),
        "EXPECT_VIEW_NOT_TABLE.NO_ALTERNATIVE": _condition("42809", "tableName", "operation"),
        "INSERT_COLUMN_ARITY_MISMATCH.NOT_ENOUGH_DATA_COLUMNS": _condition(
            "21S01", "tableName", "tableColumns", "dataColumns"
        ),
        "INSERT_COLUMN_ARITY_MISMATCH.TOO_MANY_DATA_COLUMNS": _condition(
            "21S01", "tableName", "tableColumns", "dataColumns"
        ),
        "INTERNAL_ERROR": _condition("XX000", "message"),
        "INVALID_HANDLE.FORMAT": _condition("HY000", "handle"),
        "INVALID_HANDLE.OPERATION_ALREADY_EXISTS": _condition("HY000", "handle"),
        SESSION_CLOSED: _condition("08003", "handle"),
        "OPERATION_CANCELED": _condition("HY008"),
        "PARSE_SYNTAX_ERROR": _condition("42601", "error", "hint"),
        "SCHEMA_NOT_FOUND": _condition("42704", "schemaName"),
        "TABLE_OR_VIEW_ALREADY_EXISTS": _condition("42P07", "relationName"),
        "TABLE_OR_VIEW_NOT_FOUND": _condition("42P01", "relationName", "searchPath"),
        "UNRESOLVED_COLUMN.WITH_SUGGESTION": _condition("42703", "objectName", "proposal"),
        "UNSUPPORTED_DATA_TYPE_FOR_DATASOURCE": _condition("0A000", "format", "columnName", "columnType"),
    }
)
"""Every condition of Spark that Lodge raises. ``tests/errors`` compares this table with Spark's own.

A JVM client writes the text of such an error itself, from Spark's template and the parameters. The parameters must
therefore be exactly those of the template.
"""


class GatewayError(Exception):
    """An error for a client.

    Attributes:
        condition: The stable name of the error.
        sql_state: The SQLSTATE of the condition.
        text: What happened, to which object, and what to do next.
        parameters: What the error is about, by name.
    """

    spark_class = ANALYSIS_EXCEPTION

    def __init__(
        self, condition: str, sql_state: str, text: str, parameters: Mapping[str, str] = _NO_PARAMETERS
    ) -> None:
        super().__init__(message(condition, sql_state, text))
        self.condition = condition
        self.sql_state = sql_state
        self.text = text
        self.parameters = parameters


def message(condition: str, sql_state: str, text: str) -> str:
    """Return the message of an error in Spark's form."""
    return f"[{condition}] {text} SQLSTATE: {sql_state}"


class ScanFailedError(GatewayError):
    """The failure of a scan, as the engine reported it through Spark."""


class SparkError(GatewayError):
    """An error with a condition of Spark.

    Args:
        condition: One of :data:`SPARK_CONDITIONS`.
        text: The message for clients that show the gateway's text. JVM clients show Spark's.
        parameters: The parameters of Spark's message template.
    """

    def __init__(self, condition: str, text: str, /, **parameters: str) -> None:
        super().__init__(condition, SPARK_CONDITIONS[condition].sql_state, text, parameters)


class ParseError(SparkError):
    """A statement that is not well formed.

    Args:
        text: What is wrong, and where.
    """

    spark_class = PARSE_EXCEPTION

    def __init__(self, text: str) -> None:
        near = _SYNTAX_ERROR.match(text)
        error, problem = near.groups() if near else ("this statement", text)
        super().__init__("PARSE_SYNTAX_ERROR", text, error=error, hint=f": {problem}")


class CanceledError(SparkError):
    """An operation that the client interrupted."""

    spark_class = SPARK_SQL_EXCEPTION

    def __init__(self) -> None:
        super().__init__("OPERATION_CANCELED", "Operation has been canceled.")


class BackendError(GatewayError):
    """A failed call that Lodge made for a client. The client gets the backend's own error.

    Attributes:
        error: What the backend answered.
        backend: The address of the backend.
    """

    def __init__(self, error: aio.AioRpcError, backend: str) -> None:
        super().__init__("BACKEND", "XX000", error.details() or "")
        self.error = error
        self.backend = backend


def final(error: GatewayError) -> GatewayError:
    """Return the error for a finished statement: never one that asks the client to retry its end."""
    if isinstance(error, BackendError) and error.error.code() is grpc.StatusCode.UNAVAILABLE:
        return GatewayError(
            "LODGE_BACKEND_LOST",
            "08006",
            f"Backend {error.backend} was lost while the statement ran. Lodge undid what the statement had begun. Run "
            "the statement again when the backend is back, in a new session if this one is gone.",
            {"backend": error.backend},
        )
    return error


def backend_failed(address: str, words: str) -> GatewayError:
    """Return the error for a backend that failed without an error of Spark's."""
    return GatewayError(
        "LODGE_BACKEND_FAILED",
        "58000",
        f"Backend {address} failed: {words or 'it gave no reason'}. Run the statement again. If it fails again, look "
        "for the reason in the log of the Spark driver.",
        {"backend": address, "reason": words},
    )


def invalid_request(problem: str) -> GatewayError:
    """Return the error for bytes that are not a request."""
    return SparkError(
        "CONNECT_INVALID_PLAN.CANNOT_PARSE",
        f"The Spark Connect request is invalid. Cannot parse it: {problem}. Use a Spark Connect client of version 3.5 "
        "or later.",
        errorMsg=problem,
    )


def user_id_too_long(size_bytes: int) -> GatewayError:
    """Return the error for a user id that is longer than the gateway accepts."""
    return GatewayError(
        "LODGE_USER_ID_TOO_LONG",
        "54000",
        f"The user id has {size_bytes:,} bytes. A user id has at most {MAX_USER_ID_BYTES:,}. Use a shorter one.",
        {"userIdBytes": str(size_bytes), "limitBytes": str(MAX_USER_ID_BYTES)},
    )


def invalid_session_id(session_id: str) -> GatewayError:
    """Return the error for a session id that is not a UUID."""
    return SparkError(
        "INVALID_HANDLE.FORMAT",
        f"The handle {session_id[:64]!r} is invalid. Handle must be an UUID string of the format "
        "'00112233-4455-6677-8899-aabbccddeeff'.",
        handle=session_id[:64],
    )


def session_closed(session_id: str) -> GatewayError:
    """Return the error for a session that has ended."""
    return SparkError(
        SESSION_CLOSED,
        f"The handle {session_id} is invalid. Session was closed. Start a new session.",
        handle=session_id,
    )


def internal_error(error: Exception) -> GatewayError:
    """Return the error for a defect of the gateway."""
    text = f"The gateway failed on this request ({type(error).__name__}). The gateway's log has the reason."
    return SparkError("INTERNAL_ERROR", text, message=text)


def storage_unavailable(what: str) -> GatewayError:
    """Return the error for records that cannot be read or changed. The log has the reason."""
    return GatewayError(
        "LODGE_STORAGE_UNAVAILABLE", "58030", f"The gateway cannot reach the storage of {what} now. Try again later."
    )


def storage_failed(error: OSError) -> GatewayError:
    """Return the error for a failed step in the storage of session locations. The log has the paths."""
    reason = "" if error.errno is None else f": {os.strerror(error.errno)}"
    return GatewayError(
        "LODGE_STORAGE_UNAVAILABLE",
        "58030",
        f"The gateway cannot use the storage of session locations now{reason}. Try again later.",
    )


def not_impersonated(principal: str, reason: str) -> GatewayError:
    """Return the error for a principal that no OS user stands for [temporary-tables §5.1.10.2]."""
    return GatewayError(
        "LODGE_IMPERSONATION",
        "28000",
        f"Principal [{principal}] cannot be served as an OS user: {reason}.",
        {"principal": principal},
    )


def no_backend() -> GatewayError:
    """Return the error for a principal without a backend."""
    return GatewayError(
        "LODGE_NO_BACKEND", "08001", "No backend is configured for this principal. Ask the operator for one."
    )


def fenced() -> GatewayError:
    """Return the error of a replica whose lease has lapsed: another replica may own its sessions."""
    return GatewayError(
        "LODGE_LEASE_LOST",
        "58000",
        "This gateway replica lost its lease. It changes no temporary table until it has renewed the lease. Try again.",
    )


def table_not_found(name: str, hint: str = "") -> GatewayError:
    """Return the error for a table or file that does not exist [temporary-tables §5.4]."""
    return _relation_not_found(name, f"Table [{name}] is not found.{hint and f' {hint}'}")


def view_not_found(name: str) -> GatewayError:
    """Return the error for a view that does not exist."""
    return _relation_not_found(name, f"View [{name}] is not found.")


def _relation_not_found(name: str, text: str) -> GatewayError:
    path = "the temporary tables of the session and the workspaces"
    return SparkError("TABLE_OR_VIEW_NOT_FOUND", text, relationName=f"`{name}`", searchPath=path)
