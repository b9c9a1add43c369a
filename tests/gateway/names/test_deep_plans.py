"""Plans that are nested deeper than the decoder allows."""

import pytest
from pyspark.sql.connect.proto import base_pb2, commands_pb2, relations_pb2

from gateway.errors import GatewayError
from gateway.names.deep_plans import DeepPlan
from gateway.plans.plan_decoding import UnreadablePlanError

Plan = base_pb2.Plan


def chain(leaf, length):
    """Return the encoded form of a relation with so many limits around it.

    It is built from the inside, because no decoder reads a message this deep.
    """
    encoded = leaf.SerializeToString()
    for _ in range(length):
        limit = _field(1, encoded) + b"\x10\x05"
        encoded = _field(8, limit)
    return encoded


def _field(number, value):
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _varint(number):
    encoded = b""
    while number > 0x7F:
        encoded += bytes([number & 0x7F | 0x80])
        number >>= 7
    return encoded + bytes([number])


def table(name):
    relation = relations_pb2.Relation()
    relation.read.named_table.unparsed_identifier = name
    return relation


def rename(plan, old, new):
    """Rename every table of that name in the parts of a plan."""
    for part in plan.parts:
        pending = [part]
        while pending:
            message = pending.pop()
            if isinstance(message, relations_pb2.Read.NamedTable) and message.unparsed_identifier == old:
                message.unparsed_identifier = new
            pending += [value for _, value in message.ListFields() if hasattr(value, "ListFields")]


@pytest.mark.parametrize("length", [50, 60, 400])
@pytest.mark.parametrize("new", ["", "b", "b" * 100, "b" * 20_000])
def test_only_changed_parts_and_lengths_differ(length, new):
    request = _field(1, chain(table("a"), length))
    plan = DeepPlan(request, Plan)
    assert plan.encode() == request
    rename(plan, "a", new)
    assert plan.encode() == _field(1, chain(table(new), length))


def test_two_deep_branches_are_split():
    left, right = chain(table("a"), 70), chain(table("b"), 90)
    request = _field(1, _field(5, _field(1, left) + _field(2, right)))
    plan = DeepPlan(request, Plan)
    rename(plan, "a", "longer")
    rename(plan, "b", "")
    expected = _field(1, chain(table("longer"), 70)) + _field(2, chain(table(""), 90))
    assert plan.encode() == _field(1, _field(5, expected))


def test_aliases_above_the_parts_are_known():
    encoded = _field(16, _field(1, chain(table("a"), 60)) + _field(2, b"far"))
    assert DeepPlan(_field(1, encoded), Plan).aliases == ["far"]


def test_command_is_decoded_without_its_deep_input():
    view = commands_pb2.CreateDataFrameViewCommand(name="t", replace=True).SerializeToString()
    command = _field(3, _field(1, chain(table("a"), 60)) + view)
    seen = DeepPlan(_field(2, command), Plan).decode_command()
    assert seen.create_dataframe_view.name == "t"
    assert not seen.create_dataframe_view.HasField("input")
    assert DeepPlan(_field(1, chain(table("a"), 60)), Plan).decode_command() is None


def test_unexpected_plan_is_unreadable():
    sql = relations_pb2.Relation()
    sql.sql.query = "drop view t"
    references = _field(1, sql.SerializeToString()) + _field(2, chain(table("a"), 60))
    with_relations = _field(41, references)
    with pytest.raises(UnreadablePlanError):
        DeepPlan(_field(1, with_relations), Plan)
    with pytest.raises(UnreadablePlanError):
        DeepPlan(_field(2, _field(5, _field(6, with_relations))), Plan)
    with pytest.raises(UnreadablePlanError):
        DeepPlan(_field(1, chain(table("a" * 2_000_000), 60)), Plan)


def test_plan_that_is_not_canonical_is_refused():
    wide_tag = _varint(1 << 35 | 5 << 3) + b"\x01"  # protobuf-java drops the upper bits
    for encoded in (b"\x0a\xff\xff", _field(1, chain(table("a"), 60)) + wide_tag):
        with pytest.raises(GatewayError):
            DeepPlan(encoded, Plan)


def test_compressed_plan_beside_a_deep_plan_is_unreadable():
    compressed = Plan(compressed_operation=Plan.CompressedOperation(data=b"x")).SerializeToString()
    same = _field(1, compressed) + _field(2, _field(1, chain(table("a"), 60)))
    with pytest.raises(UnreadablePlanError):
        DeepPlan(_field(12, same), base_pb2.AnalyzePlanRequest)
