"""The conversion of errors to gRPC statuses, and the reading of a backend's statuses.

This is the only place that decides how an error looks on the wire. Clients differ:

=========================  ==========================================================================================
client                     what it shows
=========================  ==========================================================================================
PySpark, Go and others     the text, the condition and the SQLSTATE of the status
JVM (Scala, Java, JDBC)    for an exception class that it knows, a text of its own, from the template of the condition;
                           for ``SparkException``, the text, the condition and the SQLSTATE of the status
=========================  ==========================================================================================

A JVM client has no template for Lodge's own conditions, so it gets these errors as a ``SparkException``. Errors with
Spark's conditions keep Spark's exception class for every client.

Guarantees:

1. A status fits into the 8 KiB of metadata that clients accept. Longer texts and parameters are shortened.
2. A status has no ``errorId``, so no client asks for more details of it. It says everything itself.

Source: [spark-connect-server ErrorUtils], [spark-connect-client], and ``GrpcExceptionConverter`` of the JVM client.
"""

import json
from collections.abc import Sequence
from typing import NamedTuple

import grpc
from google.protobuf import any_pb2
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2

from gateway.errors import SPARK_CONDITIONS, SPARK_SQL_EXCEPTION, BackendError, GatewayError, message

STATUS_DETAILS_KEY = "grpc-status-details-bin"

Metadata = Sequence[tuple[str, str | bytes]]

_SPARK_EXCEPTION = "org.apache.spark.SparkException"
_SESSION_GONE = "INVALID_HANDLE.SESSION_"
_HOP_KEYS = frozenset({"user-agent", "content-type", "te", "date", "server"})
_TEXT_CHARACTERS = (2048, 1024, 512, 256, 64)
_MAX_STATUS_BYTES = 7 * 1024


class Status(NamedTuple):
    """A gRPC status as a server sends it."""

    code: grpc.StatusCode
    details: str
    trailing: Metadata


def error_status(error: GatewayError, client_type: str = "") -> Status:
    """Return the status for an error.

    Args:
        error: The error; not a :class:`BackendError`, whose status is the backend's.
        client_type: What the client says of itself in its request.
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

    The JVM client sends ``_SPARK_CONNECT_SCALA spark/4.3.0 scala/2.13.18 jvm/17.0.15 os/linux``; a user may replace
    the first word.
    """
    return any(word.startswith("jvm/") for word in client_type.split())


def error_info(trailing: Metadata) -> error_details_pb2.ErrorInfo | None:
    """Return what the details of a status say about the error; None if it has none that can be read."""
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


def condition_of(error: grpc.aio.AioRpcError) -> str:
    """Return the condition of a backend's error; empty if it has none."""
    info = error_info(tuple(error.trailing_metadata() or ()))
    return "" if info is None else info.metadata.get("errorClass", "")


def says_session_gone(error: GatewayError | grpc.aio.AioRpcError) -> bool:
    """Return whether an error says that the client's session is over.

    Only the condition counts, never the text. A query can raise an error with any condition, but not of the class that
    the server raises for a session.
    """
    if isinstance(error, BackendError):
        error = error.error
    if isinstance(error, GatewayError):
        return error.condition.startswith(_SESSION_GONE)
    info = error_info(tuple(error.trailing_metadata() or ()))
    return (
        info is not None
        and info.reason == SPARK_SQL_EXCEPTION
        and info.metadata.get("errorClass", "").startswith(_SESSION_GONE)
    )


def forwardable(metadata: Metadata) -> Metadata:
    """Return the metadata without what each gRPC hop writes for itself. Error details are kept."""
    return tuple(
        (key, value)
        for key, value in metadata
        if key == STATUS_DETAILS_KEY or not (key.startswith(("grpc-", ":")) or key in _HOP_KEYS)
    )


def has_details(metadata: Metadata) -> bool:
    """Return whether a status has error details."""
    return any(key == STATUS_DETAILS_KEY for key, _ in metadata)


def shortened(text: str, characters: int) -> str:
    """Return the text, cut off after so many characters."""
    return text if len(text) <= characters else f"{text[: characters - 3]}..."


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
    detail = any_pb2.Any()
    detail.Pack(info)
    text = message(error.condition, error.sql_state, shortened(error.text, characters))
    status = status_pb2.Status(code=grpc.StatusCode.INTERNAL.value[0], message=text, details=[detail])
    return Status(grpc.StatusCode.INTERNAL, text, ((STATUS_DETAILS_KEY, status.SerializeToString()),))


def _wire_bytes(status: Status) -> int:
    """Return the size of a status in HTTP/2 headers: the text percent-encoded, the details in base64."""
    text = sum(1 if 0x20 <= byte <= 0x7E and byte != 0x25 else 3 for byte in status.details.encode())
    return text + sum(len(value) * 4 // 3 for _, value in status.trailing)
