"""Large and hostile requests occupy neither the event loop nor memory without a limit."""

import asyncio
import threading
import time
import tracemalloc
import uuid

import pytest
import zstandard
from pyspark.sql.connect.proto import base_pb2, expressions_pb2, relations_pb2

from gateway.blocking_work.request_pools import MAX_FIELDS, RequestPools
from gateway.errors import GatewayError
from gateway.messages.requests import index_request, read_request
from gateway.messages.wire import count_fields, encode_field
from gateway.plans.plan_decoding import PlanDecoder
from gateway.sql.lexer import DEFAULT_DIALECT, tokenize
from gateway.sql.statements import DropTable, Insert
from gateway.statements.recognition import SqlRecognition

MIB = 1024 * 1024
STALL_SECONDS = 5.0
"""The longest processor time of a step. It is a third of the default lease. Without limits, it is minutes."""

METHODS = [method.name for method in base_pb2.DESCRIPTOR.services_by_name["SparkConnectService"].methods]
Operation = base_pb2.Plan.CompressedOperation


class StallMeter:
    """Measures the longest time for which the event loop did not run.

    It is the processor time of this process, which does not depend on the load of the machine.
    """

    async def __aenter__(self):
        self.longest_seconds = 0.0
        self._task = asyncio.create_task(self._measure())
        await asyncio.sleep(0)
        return self

    async def __aexit__(self, *_):
        await asyncio.sleep(0.002)
        self._task.cancel()

    async def _measure(self):
        last = time.process_time()
        while True:
            await asyncio.sleep(0.001)
            now = time.process_time()
            self.longest_seconds = max(self.longest_seconds, now - last)
            last = now


@pytest.fixture
async def pools():
    pools = RequestPools()
    yield pools
    await pools.close()


def execution(plan):
    head = base_pb2.ExecutePlanRequest(session_id=str(uuid.uuid4())).SerializeToString()
    return read_request(head + encode_field(3, plan), "ExecutePlan")


def compressed(data, kind=Operation.OP_TYPE_RELATION):
    operation = Operation(data=zstandard.compress(data), op_type=kind, compression_codec=1)
    return base_pb2.Plan(compressed_operation=operation).SerializeToString()


async def decode(pools, request):
    decoder = PlanDecoder(pools)
    plan = await decoder.read(request)
    async with decoder.reserve(plan):
        return await decoder.decode(plan)


@pytest.mark.parametrize("method", [*METHODS, "MethodOfTomorrow"])
async def test_millions_of_fields_are_refused_at_once(method):
    data = b"\x22\x00" * (4 * MIB)
    async with StallMeter() as meter:
        with pytest.raises(GatewayError, match=r"more than 4,096 fields|occurs more than once|wrong wire type"):
            index_request(data, method)
    assert meter.longest_seconds < STALL_SECONDS


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "DROP TABLE " + "a." * (7 * MIB) + "a",
        "WITH " + "a as (select 1), " * (14 * MIB // 17) + "b as (select 1) select 1 -- insert",
        "CREATE TEMP TABLE " + "a." * (7 * MIB),
        "INSERT INTO IDENTIFIER(" + "'a' || " * (2 * MIB) + "'a') SELECT 1",
        "EXPLAIN CREATE TEMP TABLE t AS SELECT " + "a+" * (7 * MIB),
        "-" * (14 * MIB),
        "/*" * (7 * MIB),
        "'" * (14 * MIB),
    ],
    ids=["drop", "with", "create", "identifier", "explain", "comment", "nested comments", "quotes"],
)
async def test_long_sql_does_not_occupy_the_event_loop(pools, text):
    recognition = SqlRecognition(text, pools)
    async with StallMeter() as meter:
        try:
            if await recognition.may_concern_tables():
                statement = await recognition.parse(DEFAULT_DIALECT)
                if isinstance(statement, Insert):
                    await recognition.evaluate_names(statement, relations_pb2.SQL(query=text), DEFAULT_DIALECT)
        except GatewayError as error:
            assert error.condition == "LODGE_STATEMENT_TOO_LONG"
    assert meter.longest_seconds < STALL_SECONDS


async def test_insert_with_megabytes_of_values_is_parsed(pools):
    text = "INSERT INTO t VALUES " + ", ".join(f"({number}, 'name {number}', {number}.5)" for number in range(250_000))
    assert len(text) > 7 * MIB
    recognition = SqlRecognition(text, pools)
    assert await recognition.may_concern_tables()
    statement = await recognition.parse(DEFAULT_DIALECT)
    assert isinstance(statement, Insert)
    assert statement.name.parts == ("t",)


async def test_text_is_parsed_once(pools, monkeypatch):
    calls = []
    monkeypatch.setattr(
        "gateway.statements.recognition.parse_statement", lambda *arguments: calls.append(arguments) or DropTable
    )
    for text in ("DROP TABLE t", "DROP TABLE t " + " " * 100_000):
        recognition = SqlRecognition(text, pools)
        assert await recognition.may_concern_tables()
        await recognition.parse(DEFAULT_DIALECT)
        await recognition.parse(DEFAULT_DIALECT)
    assert len(calls) == 2


def test_number_of_tokens_is_limited(monkeypatch):
    monkeypatch.setattr("gateway.sql.lexer.MAX_TOKENS", 1000)
    assert len(tokenize("a " * 1000)) == 1000
    with pytest.raises(GatewayError, match="more than 1,000 words"):
        tokenize("a " * 1001)


@pytest.mark.parametrize("is_compressed", [True, False])
@pytest.mark.parametrize("size", [2 * MIB, 16 * MIB])
async def test_plan_of_empty_messages_is_refused_before_it_occupies_memory(pools, size, is_compressed):
    empty = encode_field(relations_pb2.WithRelations.REFERENCES_FIELD_NUMBER, b"") * (size // 2)
    number = relations_pb2.Relation.WITH_RELATIONS_FIELD_NUMBER
    relation = encode_field(number, empty)
    request = execution(compressed(relation) if is_compressed else encode_field(1, relation))
    async with StallMeter() as meter:
        with pytest.raises(GatewayError, match="more than 500,000 fields"):
            await decode(pools, request)
    assert meter.longest_seconds < STALL_SECONDS


async def test_decompressed_size_counts():
    pools = RequestPools(max_plan_bytes=MIB)
    relation = relations_pb2.Relation()
    relation.local_relation.data = bytes(2 * MIB)
    tracemalloc.start()
    with pytest.raises(GatewayError, match=r"is larger than 1,048,576 bytes"):
        await decode(pools, execution(compressed(relation.SerializeToString())))
    frame = zstandard.ZstdCompressor(write_content_size=False).compress(relation.SerializeToString())
    operation = Operation(data=frame, op_type=Operation.OP_TYPE_RELATION, compression_codec=1)
    with pytest.raises(GatewayError, match=r"is larger than 1,048,576 bytes"):
        await decode(pools, execution(base_pb2.Plan(compressed_operation=operation).SerializeToString()))
    assert tracemalloc.get_traced_memory()[1] < 5 * MIB
    tracemalloc.stop()
    await pools.close()


async def test_compressed_plans_of_a_request_count_together():
    pools = RequestPools(max_plan_bytes=MIB)
    relation = relations_pb2.Relation()
    relation.local_relation.data = bytes(MIB * 3 // 4)
    plan = base_pb2.Plan.FromString(compressed(relation.SerializeToString()))
    request = base_pb2.AnalyzePlanRequest(session_id=str(uuid.uuid4()))
    request.same_semantics.target_plan.CopyFrom(plan)
    async with PlanDecoder(pools).decode_analysis(request.SerializeToString()) as decoded:
        assert len(decoded.compressed) == 1
    request.same_semantics.other_plan.CopyFrom(plan)
    with pytest.raises(GatewayError, match=r"is larger than 1,048,576 bytes"):
        async with PlanDecoder(pools).decode_analysis(request.SerializeToString()):
            pass
    await pools.close()


@pytest.mark.parametrize("has_size", [True, False])
async def test_plan_after_an_empty_frame_is_refused(pools, has_size):
    """Spark continues with the next frame, and the decoder does not."""
    relation = relations_pb2.Relation(sql=relations_pb2.SQL(query="select 1"))
    compressor = zstandard.ZstdCompressor(write_content_size=has_size)
    for first in (b"", relation.SerializeToString()):
        data = compressor.compress(first) + compressor.compress(relation.SerializeToString())
        operation = Operation(data=data, op_type=Operation.OP_TYPE_RELATION, compression_codec=1)
        with pytest.raises(GatewayError, match="cannot be decompressed"):
            await decode(pools, execution(base_pb2.Plan(compressed_operation=operation).SerializeToString()))


async def test_unknown_fields_of_a_compressed_plan_are_limited(pools):
    relation = relations_pb2.Relation(sql=relations_pb2.SQL(query="select 1"))
    known = base_pb2.Plan.FromString(compressed(relation.SerializeToString())).compressed_operation.SerializeToString()
    for size, is_refused in ((100, False), (1000, True)):
        plan = encode_field(3, known + b"".join(encode_field(number, bytes(size)) for number in range(20, 30)))
        if is_refused:
            with pytest.raises(GatewayError, match="large fields"):
                await decode(pools, execution(plan))
        else:
            assert (await decode(pools, execution(plan))).plan.root == relation


async def test_large_plans_decode(pools):
    relation = relations_pb2.Relation()
    relation.local_relation.data = bytes(40 * MIB)
    values = [expressions_pb2.Expression(literal=expressions_pb2.Expression.Literal(integer=n)) for n in range(100_000)]
    many = relations_pb2.Relation()
    many.filter.condition.unresolved_function.arguments.extend(values)
    for each in (relation, many):
        plan = base_pb2.Plan(root=each)
        async with StallMeter() as meter:
            assert (await decode(pools, execution(plan.SerializeToString()))).plan == plan
            found = await decode(pools, execution(compressed(each.SerializeToString())))
            assert found.plan == plan
        assert meter.longest_seconds < STALL_SECONDS
        assert base_pb2.Plan.FromString(found.encode()).compressed_operation.op_type == Operation.OP_TYPE_RELATION


@pytest.mark.parametrize(
    "plan",
    [
        encode_field(1, b"") + encode_field(2, b""),
        encode_field(1, b"") * 2,
        b"\x08\x01",
        encode_field(3, encode_field(1, b"x") * 2),
        encode_field(3, b"\x08\x01"),
        encode_field(3, encode_field(1, b"x") + b"\x10\x01\x10\x02"),
        b"\x9a\x00\x00",
    ],
)
async def test_plan_with_two_meanings_is_refused(pools, plan):
    with pytest.raises(GatewayError):
        await PlanDecoder(pools).read(execution(plan))


@pytest.mark.parametrize("plan", [b"\x0a\x05x", b"\x0a\x02\xff\xff"])
async def test_bytes_that_are_no_plan_are_refused(pools, plan):
    for encoded in (encode_field(1, plan), compressed(plan)):
        with pytest.raises(GatewayError, match="CANNOT_PARSE"):
            await decode(pools, execution(encoded))


def test_fields_are_counted_at_any_depth():
    relation = relations_pb2.Relation()
    relation.filter.condition.unresolved_function.arguments.add().literal.integer = 1
    relation.filter.input.local_relation.data = b"\x0a" * 1000
    assert count_fields(relation.SerializeToString(), relation.DESCRIPTOR, MAX_FIELDS) == 9
    packed = expressions_pb2.Expression.Literal()
    packed.specialized_array.ints.values.extend([1] * 800)
    assert count_fields(packed.SerializeToString(), packed.DESCRIPTOR, MAX_FIELDS) == 103
    with pytest.raises(GatewayError, match="more than 3 fields"):
        count_fields(relation.SerializeToString(), relation.DESCRIPTOR, 3)


async def test_plan_of_unknown_size_reserves_what_it_needs(pools):
    relation = relations_pb2.Relation()
    relation.local_relation.data = bytes(3 * MIB)
    frame = zstandard.ZstdCompressor(write_content_size=False).compress(relation.SerializeToString())
    operation = Operation(data=frame, op_type=Operation.OP_TYPE_RELATION, compression_codec=1)
    request = execution(base_pb2.Plan(compressed_operation=operation).SerializeToString())
    assert (await PlanDecoder(pools).read(request)).size_bytes == relation.ByteSize()
    assert (await decode(pools, request)).plan.root == relation


async def test_long_texts_of_others_do_not_delay_a_text_of_moderate_length(pools):
    end = threading.Event()
    long = [asyncio.create_task(pools.parse(1024 * 1024, end.wait)) for _ in range(4)]
    await asyncio.sleep(0)
    assert await pools.parse(32 * 1024, lambda: "parsed") == "parsed"
    end.set()
    assert await asyncio.gather(*long) == [True] * 4
