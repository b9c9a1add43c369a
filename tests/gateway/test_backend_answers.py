"""Answers of backends are limited before they are decoded."""

import time

import pytest
from pyspark.sql.connect.proto import base_pb2

from gateway.backends.backend_answers import MAX_CONTROL_BYTES, decode_answer
from gateway.errors import GatewayError
from gateway.messages.wire import count_fields
from tests.gateway.thread_time import least_thread_seconds


async def test_answer_is_decoded() -> None:
    answer = base_pb2.InterruptResponse(interrupted_ids=["a", "b"] * 20_000)
    data = answer.SerializeToString()
    assert await decode_answer(base_pb2.InterruptResponse, data, "sc://a", MAX_CONTROL_BYTES) == answer


@pytest.mark.parametrize(
    "data",
    [
        base_pb2.InterruptResponse(interrupted_ids=["x" * MAX_CONTROL_BYTES]).SerializeToString(),
        base_pb2.InterruptResponse(interrupted_ids=[""] * 100_001).SerializeToString(),
        b"\x0a",
        b"\x0a\xff" * 100_000,
    ],
    ids=["too long", "too many fields", "cut off", "damaged"],
)
async def test_other_answers_are_errors_that_name_the_backend(data: bytes) -> None:
    with pytest.raises(GatewayError, match=r"LODGE_BACKEND_FAILED\] Backend sc://a failed: its answer"):
        await decode_answer(base_pb2.InterruptResponse, data, "sc://a", MAX_CONTROL_BYTES)


async def test_large_answer_does_not_occupy_the_event_loop() -> None:
    data = base_pb2.InterruptResponse(interrupted_ids=[""] * 99_000).SerializeToString()
    in_one_thread = least_thread_seconds(lambda: count_fields(data, base_pb2.InterruptResponse.DESCRIPTOR, 100_000), 3)
    begun = time.thread_time()
    assert await decode_answer(base_pb2.InterruptResponse, data, "sc://a", MAX_CONTROL_BYTES)
    assert time.thread_time() - begun < in_one_thread / 3
