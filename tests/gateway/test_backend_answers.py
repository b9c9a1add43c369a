"""Answers of backends are limited before they are decoded."""

import pytest
from pyspark.sql.connect.proto import base_pb2

from gateway.backend_answers import MAX_CONTROL_BYTES, decode_answer
from gateway.errors import GatewayError


def test_answer_is_decoded() -> None:
    answer = base_pb2.InterruptResponse(interrupted_ids=["a", "b"] * 20_000)
    assert decode_answer(base_pb2.InterruptResponse, answer.SerializeToString(), "sc://a", MAX_CONTROL_BYTES) == answer


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
def test_other_answers_are_errors_that_name_the_backend(data: bytes) -> None:
    with pytest.raises(GatewayError, match=r"LODGE_BACKEND_FAILED\] Backend sc://a failed: its answer"):
        decode_answer(base_pb2.InterruptResponse, data, "sc://a", MAX_CONTROL_BYTES)
