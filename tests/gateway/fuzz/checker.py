"""Compares how Lodge, Python's protobuf and Spark's protobuf read the same requests."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import NamedTuple

from google.protobuf.message import DecodeError

from gateway.blocking_work.request_pools import RequestPools
from gateway.errors import GatewayError
from gateway.messages.identity import Identity
from gateway.messages.requests import Request, read_request
from gateway.plans.plan_decoding import PlanDecoder
from tests.gateway.fuzz.cases import KINDS, make_case
from tests.java_reader import JARS, JavaReader
from workspace.identifiers import Principal

ANN = Identity(Principal("ann"))
_JAR = next(JARS.glob("spark-connect_*.jar"))
_SOURCE = Path(__file__).with_name("RequestReader.java")


class Reading(NamedTuple):
    """What a decoder read from a request."""

    session_id: str
    user_id: str
    user_name: str
    extensions: int
    client_type: str
    operation_id: str
    plan: str
    sql: str
    tags: tuple[str, ...]


class SparkReader(JavaReader):
    """A Java process that reads requests with Spark's classes."""

    def __init__(self) -> None:
        super().__init__(_SOURCE, str(_JAR))

    def read(self, cases: Sequence[tuple[str, bytes]]) -> list[Reading | None]:
        """Return what Spark reads from each request. None if Spark refuses the request."""
        return [_parse(line) for (line,) in self.ask([(name.encode(), data) for name, data in cases])]


def check_requests(spark: SparkReader, random: Random, count: int) -> Counter[str]:
    """Check random requests.

    Returns:
        How many requests had which outcome.

    Raises:
        AssertionError: If Lodge reads a request differently than another decoder.
    """
    cases = [make_case(random) for _ in range(count)]
    requests = [_read(method, data) for method, data in cases]
    rewritten = [_read(method, data, ANN) for method, data in cases]
    for_backend = [request.data if request else data for request, (_, data) in zip(rewritten, cases, strict=True)]
    by_spark = spark.read(cases)
    from_backend = spark.read([(method, data) for (method, _), data in zip(cases, for_backend, strict=True)])
    outcomes: Counter[str] = Counter()
    for index, (method, data) in enumerate(cases):
        request, where = requests[index], f"{method} {data.hex()}"
        python = _read_with_python(method, data)
        if request is None:
            outcomes["refused, but Spark reads it" if by_spark[index] else "refused"] += 1
        elif by_spark[index] is None:
            outcomes["Spark refuses it"] += 1
        else:
            outcomes["read"] += 1
        if request is not None and python is not None and by_spark[index] is not None:
            assert python == by_spark[index], where  # Lodge decodes plans with Python's protobuf
        for other in (by_spark[index], python):
            if request is not None and other is not None:
                _compare(request, other, where)
        ours = rewritten[index]
        if ours is not None:
            for other in (from_backend[index], _read_with_python(method, ours.data)):
                if other is not None:
                    _compare(ours, other, where)
                    assert (other.user_id, other.user_name, other.extensions) == ("ann", "ann", 0), where
            _compare_rest(method, data, ours.data, where)
    return outcomes


def _read(method: str, data: bytes, identity: Identity | None = None) -> Request | None:
    try:
        return read_request(data, method, identity)
    except GatewayError:
        return None


def _compare(request: Request, other: Reading, where: str) -> None:
    assert request.key.client_session_id == other.session_id, where
    assert request.key.principal == other.user_id, where
    assert request.operation_id == other.operation_id, where
    assert request.client_type == other.client_type, where
    assert request.tags == other.tags, where
    try:
        plan = asyncio.run(PlanDecoder(_POOLS).read(request))
    except GatewayError:
        return
    assert (plan is None) == (other.plan == "NONE"), where
    assert (plan is not None and plan.compressed is not None) == (other.plan == "COMPRESSED_OPERATION"), where


def _compare_rest(method: str, before: bytes, after: bytes, where: str) -> None:
    """Check that only the user context of a request changed."""
    try:
        messages = [KINDS[method].FromString(data) for data in (before, after)]
    except DecodeError:
        return
    for message in messages:
        message.ClearField("user_context")
    assert messages[0].SerializeToString(deterministic=True) == messages[1].SerializeToString(deterministic=True), where


def _read_with_python(method: str, data: bytes) -> Reading | None:
    try:
        message = KINDS[method].FromString(data)
    except DecodeError:
        return None
    plan, sql = "NONE", ""
    if method == "ExecutePlan" and message.HasField("plan"):
        plan = (message.plan.WhichOneof("op_type") or "OPTYPE_NOT_SET").upper()
        is_command = message.plan.HasField("command")
        relation = message.plan.command.sql_command.input if is_command else message.plan.root
        sql = relation.sql.query
    user = message.user_context
    return Reading(
        message.session_id,
        user.user_id,
        user.user_name,
        len(user.extensions),
        message.client_type,
        message.operation_id if method in ("ExecutePlan", "ReattachExecute", "ReleaseExecute") else "",
        plan,
        sql,
        tuple(message.tags) if method == "ExecutePlan" else (),
    )


def _parse(line: str) -> Reading | None:
    if line == "refused":
        return None
    session_id, user_id, user_name, extensions, client_type, operation_id, plan, sql, tags = line.split(" ")
    texts = [_text(each) for each in (session_id, user_id, user_name, client_type, operation_id)]
    names = tuple(_text(each) for each in tags.strip("[]").split(",") if each)
    return Reading(texts[0], texts[1], texts[2], int(extensions), texts[3], texts[4], plan, _text(sql), names)


def _text(field: str) -> str:
    return bytes.fromhex(field.removeprefix("x")).decode()


_POOLS = RequestPools()
