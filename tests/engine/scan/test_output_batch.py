"""Output batches from table columns, implicit columns and missing columns."""

import pyarrow as pa
import pytest

from engine.errors import ReaderError
from engine.scan.implicit_columns import FileLocation, implicit_field
from engine.scan.output_batch import build_output_batch
from engine.schema import TupleSchema

LONG, TEXT = pa.int64(), pa.string()
LOCATION = FileLocation.of("logs/2026/a.csv", "logs")
IMPLICIT = TupleSchema([implicit_field("filename"), implicit_field("dir0")])


def build(fields, implicit=(), **table):
    batch = build_output_batch(TupleSchema(fields), pa.record_batch(table), TupleSchema(implicit), LOCATION)
    batch.validate(full=True)
    return batch


def test_columns_of_all_sources_are_in_output_order():
    fields = [pa.field("z", LONG), IMPLICIT.fields[0], pa.field("B", LONG), IMPLICIT.fields[1], pa.field("a", TEXT)]
    assert build(fields, IMPLICIT, a=["x"], b=[1]).to_pylist() == [
        {"z": None, "filename": "a.csv", "B": 1, "dir0": "2026", "a": "x"}
    ]


def test_columns_outside_output_are_left_out():
    assert build([pa.field("a", LONG)], a=[1], b=[2]).schema.names == ["a"]


def test_batch_without_columns_keeps_its_rows():
    batch = build([], a=[1, 2, 3])
    assert (batch.num_rows, batch.num_columns) == (3, 0)


def test_batch_of_implicit_columns_keeps_its_rows():
    assert build([IMPLICIT.fields[0]], IMPLICIT, a=[1, 2]).column(0).to_pylist() == ["a.csv"] * 2


def test_map_gets_missing_members_in_output_order():
    field = pa.field("m", pa.struct([("z", TEXT), ("x", LONG)]))
    assert build([field], m=[{"x": 1}, None]).to_pylist() == [{"m": {"z": None, "x": 1}}, {"m": None}]


def test_missing_required_member_has_its_default():
    field = pa.field("m", pa.struct([pa.field("x", LONG), pa.field("z", LONG, nullable=False)]))
    assert build([field], m=[{"x": 1}]).to_pylist() == [{"m": {"x": 1, "z": 0}}]


def test_map_in_map_is_completed():
    inner = pa.struct([("x", LONG), ("z", TEXT)])
    field = pa.field("m", pa.struct([("n", inner), ("o", LONG)]))
    table = [{"n": {"x": 1}}, {"n": None}, None]
    assert build([field], m=table).to_pylist() == [
        {"m": {"n": {"x": 1, "z": None}, "o": None}},
        {"m": {"n": None, "o": None}},
        {"m": None},
    ]


@pytest.mark.parametrize("start", [0, 1])
def test_arrays_of_maps_are_completed_even_in_slices(start):
    field = pa.field("l", pa.list_(pa.struct([("x", LONG), ("z", TEXT)])))
    table = [[{"x": 1}], [{"x": 2}, None], [], None]
    batch = pa.record_batch({"l": table}).slice(start)
    merged = build_output_batch(TupleSchema([field]), batch, TupleSchema(), LOCATION)
    merged.validate(full=True)
    expected = [[{"x": 1, "z": None}], [{"x": 2, "z": None}, None], [], None]
    assert merged.column(0).to_pylist() == expected[start:]


def test_arrays_of_arrays_of_maps_in_maps_are_completed():
    field = pa.field("m", pa.struct([("l", pa.list_(pa.list_(pa.struct([("x", LONG), ("z", LONG)]))))]))
    assert build([field], m=[{"l": [[{"x": 1}], None]}]).to_pylist() == [{"m": {"l": [[{"x": 1, "z": None}], None]}}]


def test_maps_with_members_of_the_same_name_stay_apart():
    fields = [pa.field(name, pa.struct([("x", LONG), ("z", TEXT)])) for name in ("n", "m")]
    assert build(fields, m=[{"x": 1}], n=[{"x": 2}]).to_pylist() == [
        {"n": {"x": 2, "z": None}, "m": {"x": 1, "z": None}}
    ]


def test_complete_columns_are_moved_not_copied():
    table = pa.record_batch({"a": [1, 2], "m": [{"x": 1}, {"x": 2}]})
    batch = build_output_batch(
        TupleSchema([table.schema.field("m"), table.schema.field("a")]), table, TupleSchema(), LOCATION
    )
    assert batch.column(1).buffers()[1].address == table.column(0).buffers()[1].address
    assert batch.column(0).field(0).buffers()[1].address == table.column(1).field(0).buffers()[1].address


def test_column_of_other_type_than_output_is_an_error():
    with pytest.raises(ReaderError, match="column 'a' has type bigint, but the schema of the scan requires string"):
        build([pa.field("a", TEXT)], a=[1])
