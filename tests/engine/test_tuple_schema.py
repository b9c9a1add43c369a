"""Columns of a row that are added one after the other."""

import time
from collections.abc import Callable

import pyarrow as pa

from engine.schema import TupleSchema


def test_schemas_that_share_columns_do_not_see_those_of_each_other() -> None:
    first = TupleSchema([pa.field("a", pa.int64())])
    second = first.with_field(pa.field("b", pa.int64()))
    third = first.with_field(pa.field("c", pa.string()))
    fourth = second.with_field(pa.field("B", pa.string()))
    assert [first.names, second.names, third.names, fourth.names] == [["a"], ["a", "b"], ["a", "c"], ["a", "B"]]
    assert [schema.index_of("B") for schema in (first, second, third, fourth)] == [None, 1, None, 1]
    assert [schema.index_of("c") for schema in (first, second, third, fourth)] == [None, None, 1, None]
    assert fourth.with_field(pa.field("c", pa.int64())).names == ["a", "B", "c"]
    assert (first.find("b"), third.find("C"), fourth.find("b")) == (
        None,
        pa.field("c", pa.string()),
        pa.field("B", pa.string()),
    )


def test_many_columns_are_added_at_once() -> None:
    """If each addition read all names again, it would take 2,000 times as long as a schema of all columns."""
    fields = [pa.field(f"c{number}", pa.int64()) for number in range(4000)]

    def add() -> TupleSchema:
        schema = TupleSchema()
        for field in fields:
            schema = schema.with_field(field)
        return schema

    assert add() == TupleSchema(fields)
    assert min(seconds(add) for _ in range(3)) < 200 * min(seconds(lambda: TupleSchema(fields)) for _ in range(3))


def seconds(function: Callable[[], object]) -> float:
    begun = time.thread_time()
    function()
    return time.thread_time() - begun
