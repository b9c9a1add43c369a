"""Two files of one scan, with and without rows, columns and types."""

import pyarrow as pa
import pytest

from engine.errors import SchemaConflictError
from engine.schema import TupleSchema
from engine.type_names import type_name

INT, LONG, TEXT = pa.int32(), pa.int64(), pa.string()


def column(type_, *values, nullable=True):
    """Return a batch with one column ``a``."""
    return pa.record_batch([pa.array(values, type_)], schema=pa.schema([pa.field("a", type_, nullable)]))


@pytest.mark.parametrize("nothing", ["not opened", "no rows", "early schema and no rows", "empty batch"])
@pytest.mark.parametrize("is_first", [True, False])
def test_file_without_rows_changes_nothing(scans, nothing, is_first):
    empty = {
        "not opened": lambda: scans.reader(is_empty=True),
        "no rows": scans.reader,
        "early schema and no rows": lambda: scans.reader(schema=pa.schema([("a", LONG)])),
        "empty batch": lambda: scans.reader(scans.batch(a=pa.array([], LONG))),
    }[nothing]()
    full = scans.reader(scans.batch(a=[1]))
    batches = list(scans.of(*([empty, full] if is_first else [full, empty])).batches())
    assert [row for batch in batches for row in batch.to_pylist()] == [{"a": 1}]
    assert len({batch.schema for batch in batches}) == 1
    assert (empty.closed, full.closed) == (1, 1)


def test_files_without_rows_and_schema_give_no_batch(scans):
    assert list(scans.of(scans.reader(), scans.reader(is_empty=True)).batches()) == []


def test_no_files_give_no_batch_unless_schema_is_known(scans):
    assert list(scans.of().batches()) == []
    (batch,) = scans.of(columns=["a"], defined=TupleSchema([pa.field("a", LONG)])).batches()
    assert (batch.num_rows, batch.schema) == (0, pa.schema([("a", LONG)]))


def test_early_schema_gives_at_most_one_empty_batch(scans):
    schema = pa.schema([("a", LONG)])
    reader = scans.reader(None, None, scans.batch(a=[1]), schema=schema)
    second = scans.reader(None, scans.batch(a=[2]), schema=schema)
    sizes = [batch.num_rows for batch in scans.of(reader, second).batches()]
    assert [size for size in sizes if size] == [1, 1]
    assert sizes.count(0) <= 1


def test_last_rows_may_come_before_or_with_the_end(scans):
    for ends_late in (False, True):
        assert scans.read(scans.reader(scans.batch(a=[1]), ends_late=ends_late)) == [{"a": 1}]


def test_column_missing_in_second_file_keeps_its_type(scans):
    first = scans.batch(a=[1], b=pa.array([2], pa.int16()))
    batches = list(scans.of(scans.reader(first), scans.reader(scans.batch(a=[3]))).batches())
    assert batches[1].schema == batches[0].schema == first.schema
    assert batches[1].to_pylist() == [{"a": 3, "b": None}]


def test_wrong_guess_for_missing_column_is_a_conflict(scans):
    files = [scans.reader(scans.batch(a=[1])), scans.reader(scans.batch(a=[2], b=[3]))]
    with pytest.raises(SchemaConflictError, match=r"'1.x' .*column 'b' is bigint here, but string"):
        scans.read(*files, columns=["a", "b"])


def test_right_guess_for_missing_column_is_no_conflict(scans):
    files = [scans.reader(scans.batch(a=[1])), scans.reader(scans.batch(a=[2], b=[3]))]
    rows = scans.read(*files, columns=["a", "b"], missing_type=pa.int64())
    assert rows == [{"a": 1, "b": None}, {"a": 2, "b": 3}]


# Drill guarantees the same by its cache of vectors: a column keeps its type and mode over all readers.


@pytest.mark.parametrize(
    ("first", "later"),
    [
        pytest.param(column(LONG, 1), column(LONG, 2), id="same"),
        pytest.param(column(LONG, 1), column(LONG, 2, nullable=False), id="required_after_nullable"),
        pytest.param(column(LONG, 1), column(INT, 2), id="narrower"),
        pytest.param(column(pa.decimal128(9, 2), 1), column(pa.decimal128(5, 2), 2), id="narrower_decimal"),
        pytest.param(column(LONG, 1), column(pa.null(), None), id="nulls_only"),
    ],
)
def test_column_keeps_type_of_first_file(scans, first, later):
    batches = list(scans.of(scans.reader(first), scans.reader(later), scans.reader(first)).batches())
    assert [batch.schema for batch in batches] == [first.schema] * 3
    assert batches[2].to_pylist() == first.to_pylist()


@pytest.mark.parametrize(
    ("first", "later"),
    [
        pytest.param(column(LONG, 1, nullable=False), column(LONG, 2), id="nullable_after_required"),
        pytest.param(column(INT, 1), column(LONG, 2), id="wider"),
        pytest.param(column(pa.decimal128(5, 2), 1), column(pa.decimal128(9, 2), 2), id="wider_decimal"),
        pytest.param(column(LONG, 1), column(TEXT, "2"), id="text_after_number"),
        pytest.param(column(TEXT, "1"), column(LONG, 2), id="number_after_text"),
        pytest.param(column(LONG, 1), column(pa.list_(LONG), [2]), id="array_after_scalar"),
        pytest.param(column(pa.list_(LONG), [1]), column(LONG, 2), id="scalar_after_array"),
        pytest.param(column(pa.struct([("x", LONG)]), {"x": 1}), column(LONG, 2), id="scalar_after_map"),
    ],
)
def test_conflict_with_first_file_names_file_column_and_types(scans, first, later):
    with pytest.raises(SchemaConflictError) as raised:
        scans.read(scans.reader(first), scans.reader(later))
    assert (raised.value.column, raised.value.context.path) == ("a", "1.x")
    assert type_name(later.schema.field("a").type) in str(raised.value)
    assert type_name(first.schema.field("a").type) in str(raised.value)


def test_column_that_comes_and_goes_keeps_its_type(scans):
    files = [scans.batch(a=[1], b=["x"]), scans.batch(a=[2]), scans.batch(a=[3], b=["y"])]
    rows = scans.read(*(scans.reader(file) for file in files))
    assert [row["b"] for row in rows] == ["x", None, "y"]


def test_early_schema_of_file_without_rows_decides_types(scans):
    first = scans.reader(schema=pa.schema([("a", LONG), ("b", pa.int16())]))
    *_, last = scans.of(first, scans.reader(scans.batch(a=[1]))).batches()
    assert last.schema.field("b").type == pa.int16()
    assert last.to_pylist() == [{"a": 1, "b": None}]


@pytest.mark.parametrize("elements", [["*"], ["c", "a", "b"]])
def test_order_is_that_of_first_file_or_query(scans, elements):
    files = [scans.batch(a=[1], b=[2], c=[3]), scans.batch(c=[3], b=[2], a=[1])]
    rows = scans.read(*(scans.reader(file) for file in files), columns=elements)
    assert [list(row) for row in rows] == [["a", "b", "c"] if elements == ["*"] else elements] * 2


def test_new_members_are_left_out_unless_schema_may_change(scans, caplog):
    first, later = scans.batch(m=[{"x": 1}]), scans.batch(m=[{"x": 2, "y": 3}])
    assert scans.read(scans.reader(first), scans.reader(later)) == [{"m": {"x": 1}}, {"m": {"x": 2}}]
    assert "'m.y' is ignored" in caplog.text
    rows = scans.read(scans.reader(first), scans.reader(later), allows_schema_change=True)
    assert rows[1] == {"m": {"x": 2, "y": 3}}
