"""Properties of batches: no row is lost, doubled or changed, for any rows and limits."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.types as pt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import ValueTooLargeError
from engine.limits import BatchLimits
from engine.result_set.loader import ResultSetLoader
from engine.result_set.sizes import batch_sizes
from engine.schema import TupleSchema

SCALARS: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.bool_(): st.booleans(),
    pa.int8(): st.integers(-128, 127),
    pa.uint16(): st.integers(0, 2**16 - 1),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.float64(): st.floats(allow_nan=False),
    pa.string(): st.text(max_size=12),
    pa.binary(): st.binary(max_size=12),
    pa.decimal128(9, 2): st.decimals(-9_999_999, 9_999_999, places=2),
    pa.timestamp("us", "UTC"): st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC)),
    pa.date32(): st.dates(date(1, 1, 1), date(9999, 12, 31)),
}
DEFAULTS: dict[pa.DataType, Any] = {
    pa.bool_(): False,
    pa.int8(): 0,
    pa.uint16(): 0,
    pa.int64(): 0,
    pa.float64(): 0.0,
    pa.string(): "",
    pa.binary(): b"",
    pa.decimal128(9, 2): Decimal("0.00"),
}


def field_named(name: str, type_: pa.DataType, is_required: bool) -> pa.Field:
    can_be_required = pt.is_nested(type_) or type_ in DEFAULTS
    return pa.field(name, type_, nullable=not (is_required and can_be_required))


@st.composite
def types(draw: st.DrawFn, depth: int = 2) -> pa.DataType:
    kind = draw(st.sampled_from(["scalar", "scalar", "list", "map", "struct"] if depth else ["scalar"]))
    if kind == "scalar":
        return draw(st.sampled_from(list(SCALARS)))
    if kind == "list":
        return pa.list_(field_named("item", draw(types(depth - 1)), draw(st.booleans())))
    if kind == "map":
        return pa.map_(pa.string(), field_named("value", draw(types(depth - 1)), draw(st.booleans())))
    names = draw(st.sampled_from([["x"], ["x", "y"], ["x", "y", "z"]]))
    return pa.struct([field_named(name, draw(types(depth - 1)), draw(st.booleans())) for name in names])


def values(field: pa.Field) -> st.SearchStrategy[Any]:
    present = present_values(field.type)
    return st.one_of(st.none(), present, present) if field.nullable else present


def present_values(type_: pa.DataType) -> st.SearchStrategy[Any]:
    if pt.is_struct(type_):
        members = [type_.field(index) for index in range(type_.num_fields)]
        return st.fixed_dictionaries({member.name: st.one_of(values(member), st.just(...)) for member in members})
    if pt.is_map(type_):
        return st.lists(st.tuples(st.text(max_size=4), values(type_.item_field)), max_size=3)
    if pt.is_list(type_):
        return st.lists(values(type_.value_field), max_size=4)
    return SCALARS[type_]


def expected(field: pa.Field, value: Any) -> Any:
    """Return what a batch contains for a value. ``...`` is a value that was not written."""
    type_ = field.type
    if value is ...:
        return None if field.nullable else default(type_)
    if value is None:
        return None
    if pt.is_struct(type_):
        return {member.name: expected(member, value[member.name]) for member in members_of(type_)}
    if pt.is_map(type_):
        return [(key, expected(type_.item_field, item)) for key, item in value]
    return [expected(type_.value_field, item) for item in value] if pt.is_list(type_) else value


def default(type_: pa.DataType) -> Any:
    if pt.is_struct(type_):
        return {member.name: expected(member, ...) for member in members_of(type_)}
    return [] if pt.is_nested(type_) else DEFAULTS[type_]


def members_of(type_: pa.DataType) -> list[pa.Field]:
    return [type_.field(index) for index in range(type_.num_fields)]


@dataclass(frozen=True, slots=True)
class Story:
    """What a reader does.

    Attributes:
        columns: The columns, each with the row at which it is added.
        rows: The rows, each with whether it is saved.
        limits: The limits of a batch.
    """

    columns: list[tuple[int, pa.Field]]
    rows: list[tuple[bool, dict[str, Any]]]
    limits: BatchLimits


@st.composite
def stories(draw: st.DrawFn) -> Story:
    count = draw(st.integers(0, 25))
    columns = [
        (
            draw(st.sampled_from([0, 0, draw(st.integers(0, count))])),
            field_named(f"c{n}", draw(types()), draw(st.booleans())),
        )
        for n in range(draw(st.integers(1, 4)))
    ]
    rows = []
    for index in range(count):
        known = [field for at, field in columns if at <= index]
        row = {field.name: draw(st.one_of(values(field), st.just(...))) for field in known}
        rows.append((draw(st.sampled_from([True, True, True, False])), row))
    limits = BatchLimits(
        rows=draw(st.sampled_from([1, 3, 65_536])),
        vector_bytes=draw(st.sampled_from([60, 130, 250, 1 << 20])),
        batch_bytes=draw(st.sampled_from([None, None, 600, 1500])),
    )
    return Story(columns, rows, limits)


@pytest.mark.slow
@given(story=stories())
@settings(max_examples=100, deadline=None)
def test_no_row_is_lost_doubled_or_changed(story: Story, write: Any) -> None:
    shown, wanted = [], []
    loader = ResultSetLoader(limits=story.limits)
    loader.start_batch()
    for index, (is_saved, row) in enumerate(story.rows):
        if loader.is_full:
            shown += harvest_checked(loader, story.limits)
            loader.start_batch()
            if loader.is_full:
                shown += harvest_checked(loader, story.limits)
                loader.start_batch()
        loader.writer.start_row()
        for at, field in story.columns:
            if at == index:
                loader.writer.add_column(field)
        try:
            write.row(loader, row)
            if is_saved:
                loader.writer.save_row()
                wanted.append(row)
        except ValueTooLargeError:
            continue
    shown += harvest_checked(loader, story.limits)
    while loader.has_look_ahead:
        loader.start_batch()
        shown += harvest_checked(loader, story.limits)
    assert len(shown) == len(wanted)
    fields = {field.name: field for _, field in story.columns}
    for shown_row, row in zip(shown, wanted, strict=True):
        for name, value in shown_row.items():
            assert value == expected(fields[name], row.get(name, ...))
        assert all(name in shown_row for name in row)


@st.composite
def tables(draw: st.DrawFn) -> tuple[pa.Table, BatchLimits]:
    fields = [field_named(f"c{n}", draw(types()), draw(st.booleans())) for n in range(draw(st.integers(1, 3)))]
    schema = pa.schema(fields)
    rows = draw(st.lists(st.fixed_dictionaries({field.name: values(field) for field in fields}), max_size=20))
    plain = [{field.name: expected(field, row[field.name]) for field in fields} for row in rows]
    limits = BatchLimits(
        rows=draw(st.sampled_from([1, 4, 65_536])),
        vector_bytes=draw(st.sampled_from([90, 250, 1 << 20])),
        batch_bytes=draw(st.sampled_from([None, 700])),
        scan_rows=draw(st.sampled_from([None, 0, 7])),
    )
    return pa.Table.from_pylist(plain, schema), limits


@given(data=tables(), cut=st.integers(1, 20))
def test_arrays_and_rows_give_the_same_batches(data: Any, cut: int) -> None:
    table, limits = data
    by_row = to_batches(table, limits, table.to_pylist(), lambda loader, row: loader.writer.set_row(*row.values()))
    assert to_batches(table, limits, [table], ResultSetLoader.append) == by_row
    in_parts = to_batches(table, limits, table.to_batches(cut), ResultSetLoader.append)
    assert rows_of(in_parts) == rows_of(by_row)
    parts = table.to_batches(cut)
    mixed = [item for number, part in enumerate(parts) for item in (part.to_pylist() if number % 3 else [part])]
    assert rows_of(to_batches(table, limits, mixed, add_part_or_row)) == rows_of(by_row)


def add_part_or_row(loader: ResultSetLoader, item: Any) -> None:
    if isinstance(item, pa.RecordBatch):
        loader.append(item)
    else:
        loader.writer.set_row(*item.values())


def to_batches(table: pa.Table, limits: BatchLimits, items: Iterable[Any], add: Callable[..., None]) -> Any:
    """Return the rows of each batch, or the error if a row is too large. Its message depends on the way of loading."""
    loader = ResultSetLoader(schema=TupleSchema.of(table.schema), limits=limits)
    batches = []
    loader.start_batch()
    try:
        for item in items:
            while loader.is_full and not loader.is_at_scan_limit:
                batches.append(harvest_checked(loader, limits))
                loader.start_batch()
            if not loader.is_at_scan_limit:
                add(loader, item)
        batches.append(harvest_checked(loader, limits))
        while loader.has_look_ahead:
            loader.start_batch()
            batches.append(harvest_checked(loader, limits))
    except ValueTooLargeError as error:
        return str(type(error))
    return batches


def rows_of(batches: Any) -> Any:
    return batches if isinstance(batches, str) else [row for batch in batches for row in batch]


def harvest_checked(loader: ResultSetLoader, limits: BatchLimits) -> list[dict[str, Any]]:
    count = loader.row_count
    batch = loader.harvest()
    batch.validate(full=True)
    assert batch.num_rows == count <= limits.rows
    assert batch_sizes(batch, 0, count).excess(limits) is None
    return list(batch.to_pylist())
