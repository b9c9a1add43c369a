"""Errors that the door converts to a status."""

import asyncio

import pytest
import structlog
from pyspark.sql.connect.proto import base_pb2

from gateway.calls.call import Progress
from gateway.calls.door import Door
from gateway.errors import GatewayError, no_backend
from gateway.messages.error_status import error_info
from gateway.messages.requests import read_request

REQUESTS = (
    base_pb2.FetchErrorDetailsRequest,
    base_pb2.InterruptRequest,
    base_pb2.ReattachExecuteRequest,
    base_pb2.ReleaseExecuteRequest,
)
SESSION_ID = "01234567-89ab-cdef-0123-456789abcdef"
VALID_HEAD = b"\x0a\x24" + SESSION_ID.encode()
NOT_UTF8 = b"\x2a\x01\xff"
"""Field 5, which is a message or a string in all these requests."""


class FailingDoor(Door):
    """A door that cannot convert any error."""

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
        read_request(VALID_HEAD + NOT_UTF8).decode(kind)


def test_failing_conversion_is_an_internal_error():
    context = Context()
    with structlog.testing.capture_logs() as logs:
        asyncio.run(FailingDoor()._fail(no_backend(), context, Progress()))
    _, text, trailing = context.status
    assert text.startswith("[INTERNAL_ERROR] ")
    assert error_info(trailing).metadata["errorClass"] == "INTERNAL_ERROR"
    assert [each["event"] for each in logs] == ["request_failed"]
