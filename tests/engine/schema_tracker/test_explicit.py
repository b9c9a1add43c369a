"""Explicit and empty project lists, without a given schema."""

import pyarrow as pa
import pytest

from engine.context import ErrorContext
from engine.errors import ProjectionError, SchemaConflictError
from engine.projection.project_list import ProjectionList, ProjectionType
from engine.schema import TupleSchema
from engine.schema_tracker.tracker import ScanSchemaTracker
from engine.type_names import type_name

INT, LONG, DOUBLE, TEXT, LATE = pa.int32(), pa.int64(), pa.float64(), pa.string(), pa.null()
FILE = ErrorContext("dfs", "2.json")


def test_columns_are_late_before_first_reader(schema):
    tracker = ScanSchemaTracker(["b", "A"])
    assert tracker.projection_type() is ProjectionType.SOME
    assert tracker.output_schema() == schema(b=LATE, A=LATE)
    assert tracker.reader_input_schema() == schema(b=LATE, A=LATE)
    assert not tracker.is_resolved()


def test_columns_match_by_name_in_order_of_project_list(schema, read):
    tracker = ScanSchemaTracker(["c", "A"])
    batch = read(tracker, {"a": INT, "b": LONG, "C": DOUBLE})
    assert batch == schema(A=INT, c=DOUBLE)
    assert tracker.output_schema() == schema(c=DOUBLE, A=INT)
    assert tracker.is_resolved()


def test_parsed_project_list_is_accepted(schema):
    assert ScanSchemaTracker(ProjectionList.parse(["a"])).output_schema() == schema(a=LATE)


def test_column_of_no_reader_is_missing_until_resolved(schema):
    tracker = ScanSchemaTracker(["a", "x"])
    tracker.apply_reader_schema(schema(a=INT), FILE)
    assert tracker.missing_columns(schema(a=INT)) == schema(x=LATE)
    assert not tracker.is_resolved()
    tracker.resolve_missing_cols(schema(x=TEXT))
    assert tracker.is_resolved()
    assert tracker.output_schema() == schema(a=INT, x=TEXT)


def test_missing_column_keeps_type_of_earlier_reader(schema, read):
    tracker = ScanSchemaTracker(["a", "b"])
    read(tracker, {"a": INT, "b": pa.field("b", DOUBLE, nullable=False)})
    assert tracker.missing_columns(schema(a=INT)) == schema(b=pa.field("b", DOUBLE, nullable=False))


def test_column_of_nulls_counts_as_missing(schema):
    tracker = ScanSchemaTracker(["a"])
    tracker.apply_reader_schema(schema(a=LATE), FILE)
    assert tracker.missing_columns(schema(a=LATE)) == schema(a=LATE)
    tracker.apply_reader_schema(schema(a=INT), FILE)
    assert tracker.output_schema() == schema(a=INT)


def test_array_of_nulls_is_resolved_by_later_reader(schema, read):
    tracker = ScanSchemaTracker(["a"])
    tracker.apply_reader_schema(schema(a=pa.list_(LATE)), FILE)
    assert tracker.missing_columns(schema(a=pa.list_(LATE))) == TupleSchema()
    assert not tracker.is_resolved()
    read(tracker, {"a": pa.list_(INT)})
    assert tracker.output_schema() == schema(a=pa.list_(INT))


def test_dict_of_nulls_is_resolved_by_later_reader(schema, read):
    tracker = ScanSchemaTracker(["a"])
    tracker.apply_reader_schema(schema(a=pa.map_(TEXT, LATE)), FILE)
    assert read(tracker, {"a": pa.map_(TEXT, INT)}) == schema(a=pa.map_(TEXT, INT))
    assert tracker.output_schema() == schema(a=pa.map_(TEXT, INT))


def test_wrong_guess_of_type_is_a_conflict(schema, read):
    tracker = ScanSchemaTracker(["a", "x"])
    read(tracker, {"a": INT})
    with pytest.raises(SchemaConflictError, match=r"'2.json' in .*: column 'x' is bigint here, but string"):
        tracker.projection_filter(FILE).project(pa.field("x", LONG))


def test_later_reader_may_have_narrower_type(schema, read):
    tracker = ScanSchemaTracker(["a"])
    read(tracker, {"a": LONG})
    assert read(tracker, {"A": INT}) == schema(a=LONG)
    assert read(tracker, {"a": LATE}) == schema(a=LONG)


@pytest.mark.parametrize(
    ("first", "later"),
    [
        (pa.field("a", INT), pa.field("a", LONG)),
        (pa.field("a", LONG), pa.field("a", TEXT)),
        (pa.field("a", TEXT), pa.field("a", LONG)),
        (pa.field("a", LONG, nullable=False), pa.field("a", LONG)),
        (pa.field("a", LONG), pa.field("a", pa.list_(LONG), nullable=False)),
        (pa.field("a", pa.list_(LONG)), pa.field("a", LONG)),
        (pa.field("a", pa.list_(pa.field("item", LONG, nullable=False))), pa.field("a", pa.list_(LONG))),
        (pa.field("a", pa.struct([("x", INT)])), pa.field("a", INT)),
    ],
)
def test_later_reader_with_wider_type_or_mode_conflicts(read, first, later):
    tracker = ScanSchemaTracker(["a"])
    read(tracker, {"a": first})
    for check in (
        tracker.projection_filter(FILE).project,
        lambda one: tracker.apply_reader_schema(TupleSchema([one]), FILE),
    ):
        with pytest.raises(SchemaConflictError) as raised:
            check(later)
        assert raised.value.column == "a"
        assert raised.value.context == FILE
        assert type_name(later.type) in raised.value.offered
        assert type_name(first.type) in raised.value.promised


def test_conflict_of_modes_shows_them(read):
    tracker = ScanSchemaTracker(["a"])
    read(tracker, {"a": pa.field("a", LONG, nullable=False)})
    with pytest.raises(SchemaConflictError, match="is bigint here, but bigint not null"):
        tracker.projection_filter(FILE).project(pa.field("a", LONG))


def test_unchanged_schema_keeps_its_version(read):
    tracker = ScanSchemaTracker(["a", "b"])
    first = tracker.schema_version()
    read(tracker, {"a": INT, "b": INT})
    resolved = tracker.schema_version()
    read(tracker, {"b": INT, "c": INT})
    read(tracker, {"A": INT, "b": pa.int8()})
    assert 0 < first < resolved
    assert tracker.schema_version() == resolved


def test_resolved_explicit_schema_is_final(schema, read):
    tracker = ScanSchemaTracker(["a"], allows_schema_change=True)
    read(tracker, {"a": INT})
    read(tracker, {"a": INT, "b": INT})
    assert tracker.output_schema() == schema(a=INT)


def test_unwanted_column_of_reader_is_refused(schema):
    tracker = ScanSchemaTracker(["a"])
    with pytest.raises(ProjectionError, match=r"'2.json'.*'b'"):
        tracker.apply_reader_schema(schema(b=INT), FILE)


def test_unwanted_missing_column_is_refused(schema):
    with pytest.raises(ProjectionError, match="'b'"):
        ScanSchemaTracker(["a"]).resolve_missing_cols(schema(b=INT))


def test_missing_column_cannot_change_its_type(schema, read):
    tracker = ScanSchemaTracker(["a"])
    read(tracker, {"a": INT})
    with pytest.raises(SchemaConflictError, match="'a' is string"):
        tracker.resolve_missing_cols(schema(a=TEXT))


def test_column_projection_tells_what_is_wanted():
    tracker = ScanSchemaTracker(["m.a", "columns[3]"])
    assert tracker.column_projection("M").member("a") is not None
    assert tracker.column_projection("Columns").indexes == (3,)
    assert tracker.column_projection("x") is None


def test_empty_project_list_only_counts_rows(schema, read):
    tracker = ScanSchemaTracker([])
    assert tracker.projection_type() is ProjectionType.NONE
    assert tracker.projection_filter(FILE).is_empty
    assert tracker.is_resolved()
    assert read(tracker, {"a": INT, "m": pa.struct([("x", INT)])}) == TupleSchema()
    assert tracker.output_schema() == TupleSchema()


def test_errors_before_first_reader_name_the_scan():
    context = ErrorContext("dfs")
    tracker = ScanSchemaTracker(["a"], context=context)
    with pytest.raises(ProjectionError, match=r"^workspace 'dfs': column 'dir0'"):
        tracker.expand_implicit_col(pa.field("dir0", TEXT))
