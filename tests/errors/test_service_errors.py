"""Errors that the service itself converts to a status."""

import asyncio

import pytest
import structlog
from pyspark.sql.connect.proto import base_pb2

from gateway import service
from gateway.error_status import error_info
from gateway.errors import GatewayError, no_backend

REQUESTS = (
    base_pb2.FetchErrorDetailsRequest,
    base_pb2.InterruptRequest,
    base_pb2.ReattachExecuteRequest,
    base_pb2.ReleaseExecuteRequest,
)


class FailingService(service.SparkConnectService):
    """A service that cannot convert any error."""

    def __init__(self):
        pass

    async def _status(self, *_):
        raise UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates not allowed")


class Context:
    """A call of a client, which records its status."""

    async def abort(self, *status):
        self.status = status


@pytest.mark.parametrize("kind", REQUESTS)
def test_malformed_request_is_an_invalid_request(kind):
    with pytest.raises(GatewayError, match=r"CONNECT_INVALID_PLAN\.CANNOT_PARSE"):
        service._decode(kind, b"\x0a\x01\xff")


def test_failing_conversion_is_an_internal_error():
    context = Context()
    with structlog.testing.capture_logs() as logs:
        asyncio.run(FailingService()._fail(no_backend(), context, service._FailedRequest()))
    _, text, trailing = context.status
    assert text.startswith("[INTERNAL_ERROR] ")
    assert error_info(trailing).metadata["errorClass"] == "INTERNAL_ERROR"
    assert [each["event"] for each in logs] == ["request_failed"]
