"""Wildcards, alone and with named columns, and new columns of later readers."""

import logging

import pyarrow as pa
import pytest

from engine.context import ErrorContext
from engine.errors import SchemaConflictError
from engine.projection.project_list import ProjectionType
from engine.schema import TupleSchema
from engine.schema_tracker.provided import HIDDEN_KEY
from engine.schema_tracker.tracker import ScanSchemaTracker

INT, LONG, TEXT, LATE = pa.int32(), pa.int64(), pa.string(), pa.null()
FILE = ErrorContext("dfs", "2.json")


def struct(**members):
    return pa.struct(list(members.items()))


def warnings(caplog):
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


def test_no_columns_before_first_reader():
    tracker = ScanSchemaTracker(["*"])
    assert tracker.projection_type() is ProjectionType.ALL
    assert tracker.reader_input_schema() == TupleSchema()
    assert not tracker.is_resolved()
    assert tracker.column_projection("any").is_simple


def test_first_reader_decides_columns(schema, read):
    tracker = ScanSchemaTracker(["*"])
    read(tracker, {"b": INT, "A": TEXT})
    assert tracker.output_schema() == schema(b=INT, A=TEXT)
    assert tracker.is_resolved()


def test_order_of_first_reader_is_kept(schema, read):
    tracker = ScanSchemaTracker(["*"])
    read(tracker, {"a": INT, "b": TEXT})
    read(tracker, {"B": TEXT, "A": INT})
    assert tracker.output_schema() == schema(a=INT, b=TEXT)


def test_column_missing_in_later_reader_keeps_its_type(schema, read):
    tracker = ScanSchemaTracker(["*"])
    read(tracker, {"a": INT, "b": TEXT, "c": INT})
    assert tracker.missing_columns(schema(B=TEXT)) == schema(a=INT, c=INT)


@pytest.mark.parametrize("elements", [["*", "b"], ["b", "*"], ["*", "B", "b"]])
def test_column_beside_wildcard_has_place_of_reader(schema, read, elements):
    tracker = ScanSchemaTracker(elements)
    read(tracker, {"a": INT, "b": TEXT, "c": INT})
    assert [name.casefold() for name in tracker.output_schema().names] == ["a", "b", "c"]


def test_column_beside_wildcard_that_reader_lacks_is_last(schema, read):
    tracker = ScanSchemaTracker(["x", "*"])
    read(tracker, {"a": INT, "b": TEXT})
    assert tracker.output_schema() == schema(a=INT, b=TEXT, x=TEXT)


def test_reader_without_columns_does_not_expand_wildcard(schema, read):
    tracker = ScanSchemaTracker(["*"])
    read(tracker, {})
    assert not tracker.is_resolved()
    read(tracker, {"a": INT})
    assert tracker.output_schema() == schema(a=INT)


def test_columns_after_commit_point_are_left_out_with_one_warning(schema, read, caplog):
    tracker = ScanSchemaTracker(["*"])
    read(tracker, {"a": INT})
    version = tracker.schema_version()
    for file in ("2.json", "3.json"):
        assert read(tracker, {"a": INT, "new": INT}, file) == schema(a=INT)
    read(tracker, {"NEW": TEXT}, "4.json")
    assert tracker.output_schema() == schema(a=INT)
    assert tracker.schema_version() == version
    assert len(warnings(caplog)) == 1
    assert warnings(caplog)[0].startswith("'2.json' in workspace 'dfs': column 'new' is ignored")


def test_projection_is_not_all_after_commit_point(read):
    tracker = ScanSchemaTracker(["*"])
    read(tracker, {"a": INT})
    assert tracker.projection_type() is ProjectionType.SOME
    assert tracker.column_projection("a") is not None
    assert tracker.column_projection("new") is None


def test_commit_point_applies_within_one_file(schema, read, caplog):
    tracker = ScanSchemaTracker(["*"])
    projection = tracker.projection_filter(FILE)
    members = projection.project(pa.field("m", struct(x=INT))).members
    read(tracker, {"m": struct(x=INT)}, projection=projection)
    assert projection.project(pa.field("late", INT)).field is None
    assert members.project(pa.field("late", INT)).field is None
    assert members.project(pa.field("x", INT)).field is not None
    assert len(warnings(caplog)) == 2


def test_column_of_overflow_row_after_commit_point_is_left_out(schema, caplog):
    tracker = ScanSchemaTracker(["*"])
    projection = tracker.projection_filter(FILE)
    for name in ("a", "late"):
        assert projection.project(pa.field(name, INT)).field is not None
    tracker.apply_reader_schema(schema(a=INT), FILE)
    tracker.apply_reader_schema(schema(a=INT, late=INT), FILE)
    assert tracker.output_schema() == schema(a=INT)
    assert len(warnings(caplog)) == 1


def test_schema_change_adds_columns_at_the_end(schema, read, caplog):
    tracker = ScanSchemaTracker(["*"], allows_schema_change=True)
    read(tracker, {"b": INT})
    version = tracker.schema_version()
    read(tracker, {"a": TEXT, "b": INT})
    assert tracker.output_schema() == schema(b=INT, a=TEXT)
    assert tracker.schema_version() > version
    assert tracker.projection_type() is ProjectionType.ALL
    assert not warnings(caplog)


def test_schema_change_does_not_allow_other_types(read):
    tracker = ScanSchemaTracker(["*"], allows_schema_change=True)
    read(tracker, {"a": INT})
    with pytest.raises(SchemaConflictError):
        read(tracker, {"a": TEXT})


def test_schema_change_adds_members_of_maps(schema, read):
    tracker = ScanSchemaTracker(["*"], allows_schema_change=True)
    read(tracker, {"m": pa.list_(struct(x=INT))})
    version = tracker.schema_version()
    read(tracker, {"m": pa.list_(struct(y=TEXT, X=INT))})
    assert tracker.output_schema() == schema(m=pa.list_(struct(x=INT, y=TEXT)))
    assert tracker.schema_version() == version + 1


def test_new_members_after_commit_point_are_left_out_with_one_warning(schema, read, caplog):
    tracker = ScanSchemaTracker(["*"])
    read(tracker, {"m": struct(x=INT)})
    for _ in range(2):
        assert read(tracker, {"m": struct(x=INT, y=TEXT)}) == schema(m=struct(x=INT))
    assert tracker.output_schema() == schema(m=struct(x=INT))
    assert len(warnings(caplog)) == 1
    assert "column 'm.y' is ignored" in warnings(caplog)[0]


def test_hidden_columns_of_reader_must_be_named(schema, read):
    hidden = pa.field("h", INT, metadata={HIDDEN_KEY: b""})
    by_wildcard, by_name = ScanSchemaTracker(["*"]), ScanSchemaTracker(["*", "h"])
    assert read(by_wildcard, {"a": INT, "h": hidden}) == schema(a=INT)
    assert read(by_name, {"a": INT, "h": hidden}) == schema(a=INT, h=INT)
