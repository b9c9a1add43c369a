"""What Lodge reads from a request is what Python's protobuf and Spark's protobuf read, or Lodge refuses the request."""

from random import Random

import pytest

from gateway.errors import GatewayError
from gateway.messages.requests import read_request
from tests.gateway.fuzz.cases import make_case
from tests.gateway.fuzz.checker import SparkReader, check_requests


@pytest.fixture(scope="module")
def spark():
    with SparkReader() as reader:
        yield reader


def test_all_decoders_read_the_same_request(spark):
    outcomes = check_requests(spark, Random(13), 2000)  # noqa: S311 - not for cryptography
    assert min(outcomes[each] for each in ("read", "refused", "refused, but Spark reads it")) > 100, outcomes


def test_known_disagreement_is_refused(spark):
    """Java's decoder drops the upper bits of a tag, so it reads the second user."""
    session = b"\x0a\x24" + b"00000000-0000-0000-0000-000000000007"
    data = session + b"\x12\x05\x0a\x03ann" + b"\x92\x80\x80\x80\x80\x01\x05\x0a\x03bob"
    (reading,) = spark.read([("Config", data)])
    assert reading.user_id == "bob"
    with pytest.raises(GatewayError, match="shortest form"):
        read_request(data, "Config")


def test_cases_are_reproducible():
    first, second = (make_case(Random(5)) for _ in range(2))  # noqa: S311 - not for cryptography
    assert first == second
