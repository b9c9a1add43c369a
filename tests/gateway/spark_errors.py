"""Errors as a Spark Connect server sends them."""

import grpc
from google.protobuf.any_pb2 import Any as AnyMessage
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status

from gateway.errors import SPARK_SQL_EXCEPTION
from gateway.messages.error_status import STATUS_DETAILS_KEY


def error_metadata(condition: str, code: grpc.StatusCode) -> tuple[tuple[str, bytes]]:
    """Return the trailing metadata of an error with the class of Spark's session errors."""
    info, details = ErrorInfo(reason=SPARK_SQL_EXCEPTION), AnyMessage()
    info.metadata["errorClass"] = condition
    details.Pack(info)
    status = Status(code=code.value[0], details=[details])
    return ((STATUS_DETAILS_KEY, status.SerializeToString()),)
