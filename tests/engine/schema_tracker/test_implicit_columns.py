"""Implicit and partition columns in the schema of a scan."""

import logging

import pyarrow as pa
import pytest

from engine.context import ErrorContext
from engine.errors import ProjectionError, SchemaConflictError
from engine.projection.project_list import ProjectionType
from engine.scan.implicit_columns import implicit_field
from engine.schema import TupleSchema
from engine.schema_tracker.tracker import ScanSchemaTracker

INT, TEXT = pa.int32(), pa.string()
FILE = ErrorContext("dfs", "1.json")


def tracker_of(*elements, **options):
    return ScanSchemaTracker(elements, find_implicit=implicit_field, **options)


def partitions(count):
    return [pa.field(f"dir{index}", TEXT) for index in range(count)]


def test_implicit_columns_are_in_output_but_not_in_reader_input():
    tracker = tracker_of("a", "FileName", "b", "dir0")
    assert tracker.output_schema().names == ["a", "FileName", "b", "dir0"]
    assert tracker.reader_input_schema().names == ["a", "b"]
    assert tracker.apply_implicit_cols().names == ["FileName", "dir0"]
    assert tracker.column_projection("filename") is None


def test_list_of_implicit_columns_counts_rows():
    tracker = tracker_of("filename", "dir0")
    assert tracker.projection_type() is ProjectionType.NONE
    assert tracker.projection_filter(FILE).is_empty
    assert tracker.is_resolved()


def test_scan_without_implicit_columns_takes_names_as_columns():
    assert ScanSchemaTracker(["filename"]).reader_input_schema().names == ["filename"]


@pytest.mark.parametrize(
    ("elements", "expected"),
    [
        (["*"], ["b", "a", "dir0", "dir1"]),
        (["*", "filename"], ["b", "a", "dir0", "dir1", "filename"]),
        (["filename", "*"], ["filename", "b", "a", "dir0", "dir1"]),
        (["fqn", "*", "a", "suffix"], ["fqn", "b", "a", "dir0", "dir1", "suffix"]),
        (["dir1", "*"], ["dir1", "b", "a", "dir0"]),
    ],
)
def test_wildcard_adds_partition_columns_after_table(read, elements, expected):
    tracker = tracker_of(*elements)
    for field in partitions(2):
        tracker.expand_implicit_col(field)
    read(tracker, {"b": INT, "a": INT})
    assert tracker.output_schema().names == expected


def test_new_columns_come_before_partition_columns(read):
    tracker = tracker_of("*", allows_schema_change=True)
    tracker.expand_implicit_col(partitions(1)[0])
    read(tracker, {"a": INT})
    read(tracker, {"b": INT})
    assert tracker.output_schema().names == ["a", "b", "dir0"]


def test_partition_columns_without_wildcard_are_refused():
    tracker = tracker_of("a")
    assert not tracker.has_wildcard()
    with pytest.raises(ProjectionError, match="no wildcard"):
        tracker.expand_implicit_col(partitions(1)[0])


@pytest.mark.parametrize("elements", [["*", "filename"], ["a", "filename"]])
def test_column_shadowed_by_implicit_one_is_left_out_with_one_warning(read, caplog, elements):
    tracker = tracker_of(*elements)
    for file in ("1.json", "2.json"):
        assert read(tracker, {"a": INT, "FILENAME": INT}, file).names == ["a"]
    assert tracker.output_schema().find("filename").type == TEXT
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert caplog.records[0].getMessage().startswith("'1.json' in workspace 'dfs': column 'FILENAME' is ignored")


def test_member_named_like_implicit_column_is_a_member(schema, read):
    tracker = tracker_of("*", "filename")
    held = pa.struct([("filename", INT)])
    assert read(tracker, {"m": held}) == schema(m=held)


def test_column_is_kept_if_implicit_one_is_not_selected(schema, read):
    tracker = tracker_of("*")
    assert read(tracker, {"filename": INT}) == schema(filename=INT)


def test_implicit_column_of_reader_is_refused(schema):
    with pytest.raises(ProjectionError, match="'filename'"):
        tracker_of("filename").apply_reader_schema(schema(filename=TEXT), FILE)


@pytest.mark.parametrize("element", ["dir0[1]", "dir0.x"])
def test_name_used_as_array_or_map_belongs_to_table(element):
    tracker = tracker_of(element, "*")
    tracker.expand_implicit_col(partitions(1)[0])
    assert len(tracker.apply_implicit_cols()) == 0
    assert tracker.reader_input_schema().names == ["dir0"]


def test_given_schemas_may_have_implicit_columns(schema):
    given = schema(a=INT, filename=TEXT)
    for tracker in (
        tracker_of("a", "filename", defined=given),
        tracker_of("*", defined=given),
        tracker_of("*", provided=given),
        tracker_of("a", "filename", provided=given, is_strict=True),
    ):
        assert tracker.output_schema() == given
        assert tracker.reader_input_schema() == schema(a=INT)


@pytest.mark.parametrize("given", [pa.field("dir0", INT), pa.field("dir0", TEXT, nullable=False)])
def test_implicit_column_with_other_type_or_mode_conflicts(given):
    for options in ({"defined": TupleSchema([given])}, {"provided": TupleSchema([given])}):
        with pytest.raises(SchemaConflictError, match="'dir0' is string here"):
            tracker_of("dir0", **options)
