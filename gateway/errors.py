"""The errors that Lodge raises for clients.

Like Spark's errors, each error has a condition, a SQLSTATE, a text and parameters.
``gateway/messages/error_status.py`` converts errors to gRPC statuses. ``docs/reference/errors.md`` explains all
conditions to users.

The class hierarchy, with the exception that PySpark raises for each class::

    GatewayError             AnalysisException    an error with a Lodge condition: LODGE_…
    ├── ScanFailedError      AnalysisException    an error of a scan, which Spark reported
    ├── SparkError           AnalysisException    an error with a Spark condition
    │   ├── ParseError       ParseException
    │   └── CanceledError    UnknownException     as for an interrupted Spark operation
    └── BackendError         the error that the backend returned for a call by Lodge

Source: [spark-error-conditions], [spark-connect-client].
"""

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import grpc
from grpc import aio

ANALYSIS_EXCEPTION = "org.apache.spark.sql.AnalysisException"
PARSE_EXCEPTION = "org.apache.spark.sql.catalyst.parser.ParseException"
SPARK_SQL_EXCEPTION = "org.apache.spark.SparkSQLException"

ACCESS_DENIED = "LODGE_ACCESS_DENIED"
LEASE_LOST = "LODGE_LEASE_LOST"
LIMIT_EXCEEDED = "LODGE_LIMIT_EXCEEDED"
OPERATION_ABANDONED = "INVALID_HANDLE.OPERATION_ABANDONED"
OPERATION_NOT_FOUND = "INVALID_HANDLE.OPERATION_NOT_FOUND"
SESSION_CLOSED = "INVALID_HANDLE.SESSION_CLOSED"
STORAGE_UNAVAILABLE = "LODGE_STORAGE_UNAVAILABLE"
MAX_USER_ID_BYTES = 1024
_AUTHENTICATION_RETRY_SECONDS = 2.0
_REATTACH_RETRY_SECONDS = 1.0

_SYNTAX_ERROR = re.compile(r"Syntax error at or near (.+?): (.+)", re.DOTALL)
_NO_PARAMETERS: Mapping[str, str] = MappingProxyType({})


class SparkCondition(NamedTuple):
    """The SQLSTATE of a Spark condition, and the parameters of its message template."""

    sql_state: str
    parameters: frozenset[str]


def _condition(sql_state: str, *parameters: str) -> SparkCondition:
    return SparkCondition(sql_state, frozenset(parameters))


SPARK_CONDITIONS: Mapping[str, SparkCondition] = MappingProxyType(
    {
        "CANNOT_ALTER_PARTITION_COLUMN": _condition("428FR", "tableName", "columnName"),
        "COLUMN_ALREADY_EXISTS": _condition("42711", "columnName"),
        "COLUMN_NOT_FOUND": _condition("42703", "colName", "caseSensitiveConfig"),
        "CAST_OVERFLOW_IN_TABLE_INSERT": _condition("22003", "sourceType", "targetType", "columnName"),
        "CONNECT_INVALID_PLAN.CANNOT_PARSE": _condition("56K00", "errorMsg"),
        "CREATE_VIEW_COLUMN_ARITY_MISMATCH.NOT_ENOUGH_DATA_COLUMNS": _condition(
            "21S01", "viewName", "viewColumns", "dataColumns"
        ),
        "CREATE_VIEW_COLUMN_ARITY_MISMATCH.TOO_MANY_DATA_COLUMNS": _condition(
            "21S01", "viewName", "viewColumns", "dataColumns"
        ),
        "DATATYPE_MISMATCH.INVALID_ROW_LEVEL_OPERATION_ASSIGNMENTS": _condition("42K09", "sqlExpr", "errors"),
        "DATA_SOURCE_ALREADY_EXISTS": _condition("42710", "provider"),
        "EXPECT_VIEW_NOT_TABLE.NO_ALTERNATIVE": _condition("42809", "tableName", "operation"),
        "INTERNAL_ERROR": _condition("XX000", "message"),
        "INVALID_HANDLE.FORMAT": _condition("HY000", "handle"),
        "INVALID_HANDLE.OPERATION_ALREADY_EXISTS": _condition("HY000", "handle"),
        SESSION_CLOSED: _condition("08003", "handle"),
        "INVALID_PARTITION_OPERATION.PARTITION_SCHEMA_IS_EMPTY": _condition("42601", "name"),
        "INVALID_PARTITION_SPEC": _condition("42601", "details"),
        "MERGE_CARDINALITY_VIOLATION": _condition("23K01"),
        "OPERATION_CANCELED": _condition("HY008"),
        "NOT_SUPPORTED_CHANGE_COLUMN": _condition("0A000", "table", "originName", "originType", "newName", "newType"),
        "PARTITIONS_NOT_FOUND": _condition("428FT", "partitionList", "tableName"),
        "PARSE_SYNTAX_ERROR": _condition("42601", "error", "hint"),
        "SCHEMA_NOT_FOUND": _condition("42704", "schemaName"),
        "TABLE_OR_VIEW_ALREADY_EXISTS": _condition("42P07", "relationName"),
        "TABLE_OR_VIEW_NOT_FOUND": _condition("42P01", "relationName", "searchPath"),
        "UNRESOLVED_COLUMN.WITH_SUGGESTION": _condition("42703", "objectName", "proposal"),
        "UNSUPPORTED_FEATURE.TABLE_OPERATION": _condition("0A000", "tableName", "operation"),
        "UNSUPPORTED_MERGE_CONDITION.SUBQUERY": _condition("42K0E", "condName", "cond"),
        "UNSUPPORTED_DATA_TYPE_FOR_DATASOURCE": _condition("0A000", "format", "columnName", "columnType"),
    }
)
"""All Spark conditions that Lodge raises.

JVM clients create the text of such an error themselves, from Spark's message template and the parameters. Therefore the
parameters must be exactly the parameters of the template. ``tests/errors`` compares this table with Spark.
"""


class GatewayError(Exception):
    """An error that is returned to a client.

    Attributes:
        condition: The condition, which is the stable name of the error.
        sql_state: The SQLSTATE of the condition.
        text: What happened, to which object, and what to do next.
        parameters: The values in the error message, by name.
        code: The gRPC status code.
        retry_after_seconds: How long clients wait before they send the request again. None if clients do not send the
            request again by themselves.
    """

    spark_class = ANALYSIS_EXCEPTION
    code = grpc.StatusCode.INTERNAL
    retry_after_seconds: float | None = None

    def __init__(
        self, condition: str, sql_state: str, text: str, parameters: Mapping[str, str] = _NO_PARAMETERS
    ) -> None:
        super().__init__(message(condition, sql_state, text))
        self.condition = condition
        self.sql_state = sql_state
        self.text = text
        self.parameters = parameters


def message(condition: str, sql_state: str, text: str) -> str:
    """Return an error message in the format of Spark."""
    return f"[{condition}] {text} SQLSTATE: {sql_state}"


class ScanFailedError(GatewayError):
    """An error of a scan. The engine raised the error, and Spark reported it."""


class SparkError(GatewayError):
    """An error with a Spark condition.

    Args:
        condition: A key of :data:`SPARK_CONDITIONS`.
        text: The message for clients that display the text of the gateway. JVM clients display a text of their own.
        parameters: The parameters of Spark's message template.
    """

    def __init__(self, condition: str, text: str, /, **parameters: str) -> None:
        super().__init__(condition, SPARK_CONDITIONS[condition].sql_state, text, parameters)


class ParseError(SparkError):
    """A malformed statement.

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
    """An error that the backend returned for a call by Lodge.

    The client receives the error of the backend.

    Attributes:
        error: The error that the backend returned.
        backend: The address of the backend.
    """

    def __init__(self, error: aio.AioRpcError, backend: str) -> None:
        super().__init__("BACKEND", "XX000", error.details() or "")
        self.error = error
        self.backend = backend


def final(error: GatewayError) -> GatewayError:
    """Return the error to report for a statement that has ended.

    A backend error with the gRPC status UNAVAILABLE is replaced with ``LODGE_BACKEND_LOST``. Otherwise, clients would
    retry reading the result, although the statement has ended.
    """
    if isinstance(error, BackendError) and error.error.code() is grpc.StatusCode.UNAVAILABLE:
        return GatewayError(
            "LODGE_BACKEND_LOST",
            "08006",
            f"Backend {error.backend} was lost while the statement was running. Lodge undid the statement. Run the "
            "statement again when the backend is available. If this session has ended, start a new session first.",
            {"backend": error.backend},
        )
    return error


def partition_value(column: str) -> GatewayError:
    """Return the error for a value of a partition column that cannot be part of the name of a directory."""
    return GatewayError(
        "LODGE_PARTITION_VALUE",
        "22023",
        f"Partition column [{column}] has a value that Spark cannot write. The name of its directory would have more "
        "than 255 bytes or contain the character U+0000. Shorten the value, or do not partition the table by this "
        "column.",
    )


def executor_python(backend: str, module: str) -> GatewayError:
    """Return the error for executors that lack a package which scans need."""
    return backend_python(backend, f"the Python environment of its executors has no package [{module}]")


def backend_python(backend: str, problem: str) -> GatewayError:
    """Return the error for a backend whose Python environment cannot run scans."""
    return GatewayError(
        "LODGE_BACKEND_PYTHON",
        "58000",
        f"Backend {backend} cannot scan files, because {problem}. Scans need Python 3.11 or later with pyarrow and "
        "numpy in the Python environment of Spark's driver and of all executors (PYSPARK_PYTHON). Install what is "
        "missing.",
        {"backend": backend},
    )


def backend_failed(address: str, words: str) -> GatewayError:
    """Return the error for a backend that failed without a Spark error."""
    return GatewayError(
        "LODGE_BACKEND_FAILED",
        "58000",
        f"Backend {address} failed: {words or 'it returned no reason'}. Run the statement again. If it fails again, "
        "see the log of the Spark driver for the reason.",
        {"backend": address, "reason": words},
    )


def long_settings(names: Iterable[str], max_bytes: int) -> GatewayError:
    """Return the error for a session whose settings are too long to read for each statement."""
    return GatewayError(
        "LODGE_LIMIT_REACHED",
        "53400",
        f"The values of the settings [{', '.join(names)}] have more than {max_bytes:,} bytes, which is the maximum. "
        "Unset those that are long.",
    )


def invalid_request(problem: str) -> GatewayError:
    """Return the error for bytes that cannot be parsed as a request."""
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
        f"The user id has {size_bytes:,} bytes. The maximum is {MAX_USER_ID_BYTES:,} bytes. Use a shorter user id.",
        {"userIdBytes": str(size_bytes), "limitBytes": str(MAX_USER_ID_BYTES)},
    )


def statement_too_long(max_tokens: int) -> GatewayError:
    """Return the error for a SQL text with more words and symbols than the gateway reads."""
    return GatewayError(
        "LODGE_STATEMENT_TOO_LONG",
        "54001",
        f"The SQL text is too long for the gateway. It has more than {max_tokens:,} words and symbols, and may concern "
        "a temporary table or a workspace. Load the values from a file or a DataFrame, or split the statement.",
        {"limit": str(max_tokens)},
    )


def values_too_long(max_characters: int) -> GatewayError:
    """Return the error for a SQL statement that joins or repeats strings to more text than the gateway reads."""
    return GatewayError(
        "LODGE_VALUES_TOO_LONG",
        "54001",
        f"The strings and parameters from which names and texts are computed in this statement, in IDENTIFIER and "
        f"EXECUTE IMMEDIATE, have more than {max_characters:,} characters together, because they are repeated. Join "
        "the strings in the client, or split the statement.",
        {"limit": str(max_characters)},
    )


def invalid_handle(handle: str) -> GatewayError:
    """Return the error for a session id or an operation id that is not a UUID."""
    return SparkError(
        "INVALID_HANDLE.FORMAT",
        f"The handle {handle[:64]!r} is invalid. Handle must be an UUID string of the format "
        "'00112233-4455-6677-8899-aabbccddeeff'.",
        handle=handle[:64],
    )


def unauthenticated(reason: str) -> GatewayError:
    """Return the error for a call whose caller is unknown.

    Args:
        reason: Why the gateway does not know the caller, as a clause. The reason must not help a caller who guesses.
    """
    error = GatewayError(
        "LODGE_UNAUTHENTICATED",
        "28000",
        f"The gateway did not authenticate this call: {reason}. Connect again with valid credentials, for example "
        "sc://HOST:PORT/;use_ssl=true;token=TOKEN. Ask the operator for credentials.",
        {"reason": reason},
    )
    error.code = grpc.StatusCode.UNAUTHENTICATED
    return error


def authentication_unavailable(reason: str) -> GatewayError:
    """Return the error for credentials that the gateway cannot verify at present. Clients try again.

    Args:
        reason: Why the gateway cannot verify them, as a clause.
    """
    error = GatewayError(
        "LODGE_AUTHENTICATION_UNAVAILABLE",
        "58000",
        f"The gateway cannot verify the credentials of this call now: {reason}. Try again later.",
        {"reason": reason},
    )
    error.code = grpc.StatusCode.UNAVAILABLE
    error.retry_after_seconds = _AUTHENTICATION_RETRY_SECONDS
    return error


def access_denied(principal: str, action: str, advice: str = "Ask the operator for access.") -> GatewayError:
    """Return the error for an action that the principal is not allowed to do.

    Args:
        principal: The principal who made the request.
        action: The action and its object, as a verb phrase, for example ``drop table [dfs.data.t]``.
        advice: What to do next, as a sentence.
    """
    return GatewayError(
        ACCESS_DENIED,
        "42501",
        f"Principal [{principal}] is not allowed to {action}. {advice}",
        {"principal": principal, "action": action},
    )


def limit_exceeded(what: str, limit: int, setting: str, retry_after_seconds: float | None) -> GatewayError:
    """Return the error for a request that would exceed a limit.

    Args:
        what: The limited objects, as a plural noun phrase, for example ``sessions of this principal``.
        limit: The maximum number of these objects.
        setting: The setting that contains the limit.
        retry_after_seconds: How long the client waits before it sends the request again. None if waiting does not help.
    """
    retry = "Reduce the request" if retry_after_seconds is None else "Try again later"
    error = GatewayError(
        LIMIT_EXCEEDED,
        "53300",
        f"The limit of {limit:,} {what} is reached. {retry}, or ask the operator to increase {setting}.",
        {"what": what, "limit": str(limit), "setting": setting},
    )
    error.code = grpc.StatusCode.RESOURCE_EXHAUSTED
    error.retry_after_seconds = retry_after_seconds
    return error


def session_closed(session_id: str) -> GatewayError:
    """Return the error for a session that has ended."""
    return SparkError(
        SESSION_CLOSED,
        f"The handle {session_id} is invalid. Session was closed. Start a new session.",
        handle=session_id,
    )


def internal_error(error: Exception) -> GatewayError:
    """Return the error for a bug in the gateway."""
    text = f"The gateway failed to process this request ({type(error).__name__}). See the gateway log for the reason."
    return SparkError("INTERNAL_ERROR", text, message=text)


def storage_unavailable(what: str) -> GatewayError:
    """Return the error for records that cannot be read or changed.

    The reason is in the log.
    """
    return GatewayError(
        STORAGE_UNAVAILABLE, "58030", f"The gateway cannot reach the storage of {what} now. Try again later."
    )


def storage_failed(error: OSError) -> GatewayError:
    """Return the error for a failed access to the storage of session locations.

    The paths are in the log.
    """
    reason = "" if error.errno is None else f": {os.strerror(error.errno)}"
    return GatewayError(
        STORAGE_UNAVAILABLE,
        "58030",
        f"The gateway cannot use the storage of session locations now{reason}. Try again later.",
    )


def not_impersonated(principal: str, reason: str) -> GatewayError:
    """Return the error for a principal that Lodge cannot impersonate.

    Source: [temporary-tables §5.1.10.2].
    """
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


def reattach_later() -> GatewayError:
    """Return the error for a client that reattaches to a statement while this replica is fenced.

    The statement may run, and another replica, or this one with a new lease, completes it. An error that is not
    repeated would tell the client that the statement has failed.
    """
    error = GatewayError(
        LEASE_LOST,
        "58000",
        "This gateway replica lost its lease. It does not follow statements until it has renewed the lease. Reattach "
        "to the operation again.",
    )
    error.code = grpc.StatusCode.UNAVAILABLE
    error.retry_after_seconds = _REATTACH_RETRY_SECONDS
    return error


def fenced() -> GatewayError:
    """Return the error for a replica whose lease has lapsed.

    Another replica may already serve the sessions of this replica.
    """
    return GatewayError(
        LEASE_LOST,
        "58000",
        "This gateway replica lost its lease. It does not change temporary tables until it has renewed the lease. Try "
        "again.",
    )


def table_not_found(name: str, hint: str = "", parts: Sequence[str] = ()) -> GatewayError:
    """Return the error for an unknown table or file [temporary-tables §5.4].

    Args:
        name: The name for the text.
        hint: What to do next.
        parts: The parts of a qualified name.
    """
    return _relation_not_found(f"Table [{name}] is not found.{hint and f' {hint}'}", parts or (name,))


def view_not_found(name: str) -> GatewayError:
    """Return the error for a view that does not exist."""
    return _relation_not_found(f"View [{name}] is not found.", (name,))


def column_not_found(parts: Sequence[str], columns: Sequence[str]) -> GatewayError:
    """Return the error for a column that a table does not have.

    Args:
        parts: The parts of the qualified name of the column.
        columns: The names of the columns of the table.
    """
    name = relation_name(parts)
    proposal = ", ".join(relation_name([each]) for each in columns)
    text = f"A column with name {name} cannot be resolved."
    return SparkError("UNRESOLVED_COLUMN.WITH_SUGGESTION", text, objectName=name, proposal=proposal)


def relation_name(parts: Sequence[str]) -> str:
    """Return a qualified name as Spark writes it in errors: each part in backquotes."""
    return ".".join("`" + part.replace("`", "``") + "`" for part in parts)


def _relation_not_found(text: str, parts: Sequence[str]) -> GatewayError:
    path = "the temporary tables of the session and the workspaces"
    return SparkError("TABLE_OR_VIEW_NOT_FOUND", text, relationName=relation_name(parts), searchPath=path)
