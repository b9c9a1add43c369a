"""Implicit and partition columns among those of the table."""

import logging

import pyarrow as pa
import pytest

from engine.context import ErrorContext
from engine.errors import ProjectionError, SchemaConflictError
from engine.projection.project_list import ProjectionType
from engine.scan.implicit_columns import implicit_field
from engine.schema import TupleSchema
from engine.schema_tracker.tracker import create_tracker

INT, TEXT = pa.int32(), pa.string()
FILE = ErrorContext("dfs", "1.json")


def tracker_of(*elements, **options):
    return create_tracker(elements, find_implicit=implicit_field, **options)


def partitions(count):
    return [pa.field(f"dir{index}", TEXT) for index in range(count)]


def test_implicit_columns_stand_in_the_output_but_no_reader_is_asked_for_them():
    tracker = tracker_of("a", "FileName", "b", "dir0")
    assert tracker.output_schema().names == ["a", "FileName", "b", "dir0"]
    assert tracker.reader_input_schema().names == ["a", "b"]
    assert tracker.apply_implicit_cols().names == ["FileName", "dir0"]
    assert tracker.column_projection("filename") is None


def test_a_list_of_implicit_columns_only_counts_the_tables_rows():
    tracker = tracker_of("filename", "dir0")
    assert tracker.projection_type() is ProjectionType.NONE
    assert tracker.projection_filter(FILE).is_empty
    assert tracker.is_resolved()


def test_other_data_sources_have_no_implicit_columns():
    assert create_tracker(["filename"]).reader_input_schema().names == ["filename"]


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
def test_a_wildcard_brings_partition_columns_after_the_tables(read, elements, expected):
    tracker = tracker_of(*elements)
    for field in partitions(2):
        tracker.expand_implicit_col(field)
    read(tracker, {"b": INT, "a": INT})
    assert tracker.output_schema().names == expected


def test_new_columns_of_later_readers_stand_before_the_partition_columns(read):
    tracker = tracker_of("*", allows_schema_change=True)
    tracker.expand_implicit_col(partitions(1)[0])
    read(tracker, {"a": INT})
    read(tracker, {"b": INT})
    assert tracker.output_schema().names == ["a", "b", "dir0"]


def test_without_a_wildcard_nothing_is_expanded():
    tracker = tracker_of("a")
    assert not tracker.has_wildcard()
    with pytest.raises(ProjectionError, match="no wildcard"):
        tracker.expand_implicit_col(partitions(1)[0])


@pytest.mark.parametrize("elements", [["*", "filename"], ["a", "filename"]])
def test_a_readers_column_named_like_an_implicit_one_is_left_out_with_one_warning(read, caplog, elements):
    tracker = tracker_of(*elements)
    for file in ("1.json", "2.json"):
        assert read(tracker, {"a": INT, "FILENAME": INT}, file).names == ["a"]
    assert tracker.output_schema().find("filename").type == TEXT
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert caplog.records[0].getMessage().startswith("'1.json' in workspace 'dfs': column 'FILENAME' is left out")


def test_a_member_named_like_an_implicit_column_is_a_member(schema, read):
    tracker = tracker_of("*", "filename")
    held = pa.struct([("filename", INT)])
    assert read(tracker, {"m": held}) == schema(m=held)


def test_a_readers_column_is_its_own_if_the_query_does_not_ask_for_the_implicit_one(schema, read):
    tracker = tracker_of("*")
    assert read(tracker, {"filename": INT}) == schema(filename=INT)


def test_a_reader_cannot_give_an_implicit_column(schema):
    with pytest.raises(ProjectionError, match="'filename'"):
        tracker_of("filename").apply_reader_schema(schema(filename=TEXT), FILE)


@pytest.mark.parametrize("element", ["dir0[1]", "dir0.x"])
def test_a_name_used_as_array_or_map_is_the_tables(element):
    tracker = tracker_of(element, "*")
    tracker.expand_implicit_col(partitions(1)[0])
    assert len(tracker.apply_implicit_cols()) == 0
    assert tracker.reader_input_schema().names == ["dir0"]


def test_implicit_columns_may_be_in_the_schemas_that_are_given(schema):
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
def test_an_implicit_column_given_with_another_type_or_mode_conflicts(given):
    for options in ({"defined": TupleSchema([given])}, {"provided": TupleSchema([given])}):
        with pytest.raises(SchemaConflictError, match="'dir0' is string here"):
            tracker_of("dir0", **options)


def test_the_generic_selection_stands_beside_implicit_columns():
    assert tracker_of("filename", "columns[2]").select_columns_array().indexes == (2,)
