"""Messages that are nested deeper than protobuf's decoder follows (guarantees: gateway.messages.deep_messages)."""

from random import Random

import pytest
from google.protobuf.message import DecodeError, Message
from pyspark.sql.connect.proto import base_pb2, expressions_pb2, relations_pb2

from gateway.errors import GatewayError
from gateway.messages.deep_messages import decode_into
from gateway.messages.wire import MAX_DEPTH, encode_field
from tests.gateway.function_calls import count_calls
from tests.golden.plans import random_plans

Relation = relations_pb2.Relation


def inputs(relation: Relation) -> list[Relation]:
    """Fill an empty relation, and return its empty inputs: operations with one, two, and any number of them."""
    relation.with_relations.root.SetInParent()
    return [relation.with_relations.root, *(relation.with_relations.references.add() for _ in range(3))]


def deep_relation(chosen: Random, operations: int) -> Relation:
    """Return a relation with one deep path through inputs of all kinds, and shallow ones beside it."""
    root = relation = Relation()
    for number in range(operations):
        match chosen.randrange(5):
            case 0:
                relation.limit.limit = number
                relation = relation.limit.input
            case 1:
                for _ in range(chosen.randrange(40)):
                    relation.project.expressions.add().unresolved_attribute.unparsed_identifier = "a"
                relation.project.input.SetInParent()
                relation = relation.project.input
            case 2:
                relation.join.left.range.end = number
                relation.join.right.SetInParent()
                relation = relation.join.right
            case 3:
                added = inputs(relation)
                relation = added.pop(chosen.randrange(len(added)))
                for other in added:
                    other.sql.query = "select 1"
            case _:
                fill(relation.filter.condition, chosen.randrange(120))
                relation.filter.input.SetInParent()
                relation = relation.filter.input
    relation.sql.query = "select :a"
    relation.sql.named_arguments["b"].literal.integer = 1
    fill(relation.sql.named_arguments["a"], 90)
    relation.sql.args["c"].string = "x"
    return root


def fill(expression: expressions_pb2.Expression, depth: int) -> None:
    for _ in range(depth):
        expression = expression.alias.expr
    expression.literal.integer = depth


def decode(kind: type[Message], data: bytes) -> Message:
    message = kind()
    decode_into(message, data)
    return message


@pytest.mark.parametrize("seed", range(20))
def test_guarantee_1_deep_message_is_decoded(seed: int) -> None:
    relation = deep_relation(Random(seed), 20 * seed + 20)  # noqa: S311 - must be repeatable
    data = relation.SerializeToString()
    with pytest.raises(DecodeError):
        Relation.FromString(data)
    found = decode(Relation, data)
    assert found == relation
    assert found.SerializeToString(deterministic=True) == relation.SerializeToString(deterministic=True)


def test_guarantee_1_shallow_messages_are_decoded_as_protobuf_does() -> None:
    for plan in random_plans(200, 1):
        assert decode(base_pb2.Plan, plan.SerializeToString()) == plan


@pytest.mark.parametrize(("levels", "is_refused"), [(MAX_DEPTH, False), (MAX_DEPTH + 200, True)])
def test_guarantee_1_depth_has_a_limit(levels: int, is_refused: bool) -> None:
    relation = Relation()
    innermost = relation
    for _ in range(levels // 2):
        innermost = innermost.limit.input
    innermost.SetInParent()
    if is_refused:
        with pytest.raises(GatewayError, match="LODGE_PLAN_TOO_DEEP"):
            decode(Relation, relation.SerializeToString())
    else:
        assert decode(Relation, relation.SerializeToString()) == relation


@pytest.mark.parametrize("first", [2, 8])
def test_guarantee_2_message_with_two_meanings_is_refused(first: int) -> None:
    limit = b"\x0a\x00"
    for _ in range(120):
        limit = encode_field(1, encode_field(8, limit))
    with pytest.raises(GatewayError, match="occurs twice"):
        decode(Relation, encode_field(first, b"") + encode_field(8, limit))


def test_bytes_below_a_deep_message_that_are_no_message_are_refused() -> None:
    limit = encode_field(10, encode_field(1, b"\xff"))  # the query is no UTF-8
    for _ in range(120):
        limit = encode_field(8, encode_field(1, limit))
    with pytest.raises(DecodeError):
        decode(Relation, limit)


@pytest.mark.parametrize("in_front", [False, True])
def test_guarantee_3_work_grows_with_the_size(in_front: bool) -> None:
    """Also if large fields stand in front of the deep ones, so that each attempt to decode reads them."""

    def calls(operations: int) -> int:
        encoded = b""
        for _ in range(operations):
            beside = encode_field(3, b"") * 4  # expressions of a projection
            below = encode_field(1, encoded)
            encoded = encode_field(3, beside + below if in_front else below + beside)
        return count_calls(lambda: decode(Relation, encoded))

    assert calls(1600) <= 2.5 * calls(800)
