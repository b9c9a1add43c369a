"""Converts errors to gRPC statuses, and reads the statuses of backends.

Only this module decides which form an error has on the wire. The displayed text depends on the client:

=========================  ==========================================================================================
client                     displayed text
=========================  ==========================================================================================
PySpark, Go and others     the text, the condition and the SQLSTATE in the status
JVM (Scala, Java, JDBC)    for known exception classes, a text that the client creates from the condition's template;
                           for ``SparkException``, the text, the condition and the SQLSTATE in the status
=========================  ==========================================================================================

JVM clients do not have templates for Lodge conditions. Therefore they receive errors with Lodge conditions as a
``SparkException``. Errors with Spark conditions have the same exception class as in Spark for all clients.

Guarantees:

1. A status fits into the 8 KiB of metadata that clients accept. Long texts and parameters are truncated.
2. Every text can be converted. Characters that UTF-8 cannot represent are replaced.
3. A status does not have an ``errorId``, so clients do not request further details. The status contains all details.
4. If an error has a delay after which the client may retry, the status contains it as ``google.rpc.RetryInfo``. PySpark
   and JVM clients wait for this delay, and then send the request again, with any status code.
5. Clients search the text of a status for the conditions ``INVALID_CURSOR.…`` and ``INVALID_HANDLE.…``, and then repeat
   the statement, or give up their session. Such a word in a text that can contain data gets a blank after its dot.
   Only Spark's session errors, and the condition of an error itself, keep it. Parameters keep the true value.

Source: [spark-connect-server ErrorUtils], [spark-connect-client], and ``GrpcExceptionConverter`` of the JVM client.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import grpc
from google.protobuf.message import DecodeError, Message
from google.rpc import error_details_pb2, status_pb2

from gateway.errors import SPARK_CONDITIONS, SPARK_SQL_EXCEPTION, BackendError, GatewayError, message

STATUS_DETAILS_KEY = "grpc-status-details-bin"

Metadata = Sequence[tuple[str, str | bytes]]

_SPARK_EXCEPTION = "org.apache.spark.SparkException"
_SESSION_GONE = "INVALID_HANDLE.SESSION_"
_HOP_KEYS = frozenset({"user-agent", "content-type", "te", "date", "server"})
_TEXT_CHARACTERS = (2048, 1024, 512, 256, 64)
_MAX_STATUS_BYTES = 7 * 1024
_CLIENT_CONDITION = re.compile(r"(INVALID_(?:CURSOR|HANDLE))\.(?=\w)", re.IGNORECASE)


class Status(NamedTuple):
    """A gRPC status that a server sends."""

    code: grpc.StatusCode
    details: str
    trailing: Metadata


def error_status(error: GatewayError, client_type: str = "") -> Status:
    """Return the gRPC status for an error.

    Args:
        error: The error. Must not be a :class:`BackendError`, because the status of such an error comes from the
            backend.
        client_type: The client type in the client's request, or the user agent of the call.
    """
    spark_class = error.spark_class
    if is_jvm(client_type) and error.condition not in SPARK_CONDITIONS:
        spark_class = _SPARK_EXCEPTION
    for characters in _TEXT_CHARACTERS:
        status = _status(error, spark_class, characters)
        if _wire_bytes(status) <= _MAX_STATUS_BYTES:
            break
    return status


def is_jvm(client_type: str) -> bool:
    """Return whether a client builds error messages from its own templates.

    The client type of a JVM client looks like ``_SPARK_CONNECT_SCALA spark/4.3.0 scala/2.13.18 jvm/17.0.15 os/linux``.
    Users can replace the first word. The user agent of a JVM client looks like ``grpc-java-netty/1.76.0``.
    """
    return any(word.startswith(("jvm/", "grpc-java")) for word in client_type.split())


def error_info(trailing: Metadata) -> error_details_pb2.ErrorInfo | None:
    """Return the ``ErrorInfo`` in the details of a status.

    Returns:
        The ``ErrorInfo``. None if the status has no readable ``ErrorInfo``.
    """
    for key, value in trailing:
        if key != STATUS_DETAILS_KEY or not isinstance(value, bytes):
            continue
        try:
            details = status_pb2.Status.FromString(value).details
            for detail in details:
                info = error_details_pb2.ErrorInfo()
                if detail.Unpack(info):
                    return info
        except DecodeError:
            continue
    return None


def info_of(error: grpc.aio.AioRpcError) -> error_details_pb2.ErrorInfo | None:
    """Return the ``ErrorInfo`` of a backend error. None if it has no readable ``ErrorInfo``."""
    return error_info(tuple(error.trailing_metadata() or ()))


def condition_of(error: grpc.aio.AioRpcError) -> str:
    """Return the condition of a backend error. Empty if the error has no condition."""
    info = info_of(error)
    return "" if info is None else info.metadata.get("errorClass", "")


def session_gone_condition(error: GatewayError | grpc.aio.AioRpcError) -> str:
    """Return the condition of an error that means that the backend does not have the client's session.

    The result is empty for all other errors.

    Only the condition and the class of the error are evaluated, never the text. A query can raise an error with any
    condition, but not with the class that the server uses for session errors.
    """
    if isinstance(error, BackendError):
        error = error.error
    if isinstance(error, GatewayError):
        condition = error.condition
    else:
        info = info_of(error)
        condition = "" if info is None or info.reason != SPARK_SQL_EXCEPTION else info.metadata.get("errorClass", "")
    return condition if condition.startswith(_SESSION_GONE) else ""


def break_client_conditions(text: str) -> str:
    """Return a text in which no word reads like a condition on which clients act (guarantee 5)."""
    return _CLIENT_CONDITION.sub(r"\1. ", text)


def forwardable_status(code: grpc.StatusCode, details: str, trailing: Metadata) -> Status:
    """Return the status of a backend for its client, with guarantee 5."""
    trailing = forwardable(trailing)
    info = error_info(trailing)
    is_of_spark = (
        info is not None
        and info.reason == SPARK_SQL_EXCEPTION
        and _CLIENT_CONDITION.match(info.metadata.get("errorClass", "")) is not None
    )
    harmless = details if is_of_spark else break_client_conditions(details)
    if harmless == details:
        return Status(code, details, trailing)

    def replace_message(status: status_pb2.Status) -> None:  # it must equal the text of the gRPC status
        status.message = harmless

    return Status(code, harmless, _with_changed_status(trailing, replace_message))


def forwardable(metadata: Metadata) -> Metadata:
    """Return the metadata that can be forwarded.

    Metadata that every gRPC server sets itself is removed. Error details are kept.
    """
    return tuple(
        [
            (key, value)
            for key, value in metadata
            if key not in _HOP_KEYS and (key == STATUS_DETAILS_KEY or not key.startswith(("grpc-", ":")))
        ]
    )


def without_error_id(trailing: Metadata) -> Metadata:
    """Return the metadata of a status without an ``errorId``, so that the client does not request more details."""
    info = error_info(trailing)
    if info is None:
        return trailing
    info.metadata.pop("errorId", None)

    def replace_info(status: status_pb2.Status) -> None:
        for detail in status.details:
            if detail.Is(info.DESCRIPTOR):
                detail.Pack(info)

    return _with_changed_status(trailing, replace_info)


def with_text(trailing: Metadata, text: str, parameters: Mapping[str, str]) -> Metadata:
    """Return the metadata of a status with another text and other parameters.

    The status gets no ``errorId``, because the details at the backend have the former text.
    """

    def replace_text(status: status_pb2.Status) -> None:
        status.message = text
        for detail in status.details:
            info = error_details_pb2.ErrorInfo()
            if detail.Unpack(info):
                info.metadata["messageParameters"] = json.dumps(parameters, ensure_ascii=False)
                info.metadata.pop("errorId", None)
                detail.Pack(info)

    return _with_changed_status(trailing, replace_text)


def has_details(metadata: Metadata) -> bool:
    """Return whether the metadata of a status contains error details."""
    return any(key == STATUS_DETAILS_KEY for key, _ in metadata)


def shortened(text: str, characters: int) -> str:
    """Return the text, truncated to the given number of characters, and without lone surrogates."""
    text = text if len(text) <= characters else f"{text[: characters - 3]}..."
    return text.encode(errors="replace").decode()


def _status(error: GatewayError, spark_class: str, characters: int) -> Status:
    parameters = {name: shortened(value, characters // 4) for name, value in error.parameters.items()}
    info = error_details_pb2.ErrorInfo(
        reason=spark_class,
        domain="org.apache.spark",
        metadata={
            "classes": json.dumps([spark_class, "java.lang.Exception", "java.lang.Throwable"]),
            "errorClass": error.condition,
            "sqlState": error.sql_state,
            "messageParameters": json.dumps(parameters, ensure_ascii=False),
        },
    )
    details: list[Message] = [info]
    if error.retry_after_seconds is not None:
        retry = error_details_pb2.RetryInfo()
        retry.retry_delay.FromMilliseconds(round(error.retry_after_seconds * 1000))
        details.append(retry)
    words = shortened(break_client_conditions(error.text), characters)
    text = message(error.condition, error.sql_state, words)
    status = status_pb2.Status(code=error.code.value[0], message=text)
    for detail in details:
        status.details.add().Pack(detail)
    return Status(error.code, text, ((STATUS_DETAILS_KEY, status.SerializeToString()),))


def _with_changed_status(trailing: Metadata, change: Callable[[status_pb2.Status], None]) -> Metadata:
    """Return the metadata of a status with a change to the details. Unreadable details stay as they are."""
    return tuple((key, _changed(value, change) if key == STATUS_DETAILS_KEY else value) for key, value in trailing)


def _changed(value: str | bytes, change: Callable[[status_pb2.Status], None]) -> str | bytes:
    if not isinstance(value, bytes):
        return value
    try:
        status = status_pb2.Status.FromString(value)
    except DecodeError:
        return value
    change(status)
    encoded: bytes = status.SerializeToString()
    return encoded


def _wire_bytes(status: Status) -> int:
    """Return the size of a status in HTTP/2 headers.

    The text is percent-encoded, and the details are in base64.
    """
    text = sum(1 if 0x20 <= byte <= 0x7E and byte != 0x25 else 3 for byte in status.details.encode())
    return text + sum(len(value) * 4 // 3 for _, value in status.trailing)
