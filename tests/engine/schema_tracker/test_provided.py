"""Provided schemas, lenient and strict, with wildcards and explicit project lists."""

import pyarrow as pa
import pytest

from engine.context import ErrorContext
from engine.errors import SchemaConflictError
from engine.projection.project_list import ProjectionType
from engine.schema import TupleSchema
from engine.schema_tracker.provided import HIDDEN_KEY
from engine.schema_tracker.tracker import ScanSchemaTracker

INT, LONG, TEXT, LATE = pa.int32(), pa.int64(), pa.string(), pa.null()
FILE = ErrorContext("dfs", "1.json")
HIDDEN = pa.field("h", INT, metadata={HIDDEN_KEY: b""})


def struct(**members):
    return pa.struct(list(members.items()))


def test_provided_columns_come_first_under_wildcard(schema, read):
    tracker = ScanSchemaTracker(["*"], provided=schema(b=LONG, a=INT))
    assert tracker.reader_input_schema() == schema(b=LONG, a=INT)
    assert not tracker.is_resolved()
    read(tracker, {"x": TEXT, "a": INT, "B": INT})
    assert tracker.output_schema() == schema(b=LONG, a=INT, x=TEXT)


def test_only_first_reader_adds_columns_to_lenient_schema(schema, read):
    tracker = ScanSchemaTracker(["*"], provided=schema(a=INT))
    read(tracker, {"x": TEXT})
    read(tracker, {"y": TEXT})
    assert tracker.output_schema() == schema(a=INT, x=TEXT)


def test_wildcard_over_strict_schema_is_its_columns(schema, read, caplog):
    tracker = ScanSchemaTracker(["*"], provided=schema(a=INT, b=LONG), is_strict=True)
    assert tracker.projection_type() is ProjectionType.SOME
    assert tracker.has_wildcard()
    assert tracker.is_resolved()
    assert read(tracker, {"a": INT, "x": TEXT}) == schema(a=INT)
    assert tracker.output_schema() == schema(a=INT, b=LONG)
    assert not caplog.records


def test_strict_schema_never_grows(schema, read):
    tracker = ScanSchemaTracker(["*"], provided=schema(m=struct(x=INT)), is_strict=True, allows_schema_change=True)
    read(tracker, {"m": struct(x=INT, y=INT), "n": INT})
    assert tracker.output_schema() == schema(m=struct(x=INT))


def test_strict_without_provided_schema_has_no_effect(schema, read):
    tracker = ScanSchemaTracker(["*"], is_strict=True)
    read(tracker, {"a": INT})
    assert tracker.output_schema() == schema(a=INT)


@pytest.mark.parametrize("is_strict", [False, True])
def test_wildcard_leaves_out_hidden_columns(schema, read, is_strict):
    tracker = ScanSchemaTracker(["*"], provided=schema(a=INT, h=HIDDEN), is_strict=is_strict)
    assert read(tracker, {"a": INT, "h": INT}) == schema(a=INT)
    assert tracker.output_schema() == schema(a=INT)


@pytest.mark.parametrize("is_strict", [False, True])
@pytest.mark.parametrize("elements", [["H"], ["*", "H"]])
def test_hidden_columns_can_be_named(schema, read, is_strict, elements):
    tracker = ScanSchemaTracker(elements, provided=schema(h=HIDDEN), is_strict=is_strict)
    assert [field.type for field in read(tracker, {"h": INT})] == [INT]


@pytest.mark.parametrize("is_strict", [False, True])
def test_explicit_list_has_provided_types_in_its_own_order(schema, is_strict):
    tracker = ScanSchemaTracker(["c", "A"], provided=schema(a=INT, b=TEXT, c=LONG), is_strict=is_strict)
    assert tracker.output_schema() == schema(c=LONG, A=INT)
    assert tracker.is_resolved()


def test_reader_decides_columns_outside_lenient_schema(schema, read):
    tracker = ScanSchemaTracker(["a", "x"], provided=schema(a=INT, b=TEXT))
    assert tracker.output_schema() == schema(a=INT, x=LATE)
    read(tracker, {"a": INT, "x": LONG})
    assert tracker.output_schema() == schema(a=INT, x=LONG)


def test_columns_outside_strict_schema_are_always_missing(schema, read):
    tracker = ScanSchemaTracker(["a", "x"], provided=schema(a=INT), is_strict=True)
    assert read(tracker, {"a": INT, "x": LONG}) == schema(a=INT)
    assert tracker.output_schema() == schema(a=INT, x=TEXT)
    assert read(tracker, {"a": INT, "x": struct(y=INT)}) == schema(a=INT)


@pytest.mark.parametrize("elements", [["*"], ["a"]])
@pytest.mark.parametrize("is_strict", [False, True])
@pytest.mark.parametrize("types", [(INT, LONG), (TEXT, LONG), (LONG, TEXT), (LATE, LONG)])
def test_reader_type_is_converted_to_provided_type(schema, read, elements, is_strict, types):
    offered, declared = types
    tracker = ScanSchemaTracker(elements, provided=schema(a=declared), is_strict=is_strict)
    assert read(tracker, {"a": offered}) == schema(a=declared)
    assert tracker.output_schema() == schema(a=declared)


@pytest.mark.parametrize("is_strict", [False, True])
@pytest.mark.parametrize(
    ("offered", "declared"),
    [
        (pa.field("a", LONG), pa.field("a", INT)),
        (pa.field("a", LONG), pa.field("a", LONG, nullable=False)),
        (pa.field("a", pa.list_(LONG)), pa.field("a", LONG)),
        (pa.field("a", struct(x=INT)), pa.field("a", TEXT)),
    ],
)
def test_unconvertible_type_or_mode_conflicts(is_strict, offered, declared):
    tracker = ScanSchemaTracker(["*"], provided=TupleSchema([declared]), is_strict=is_strict)
    with pytest.raises(SchemaConflictError, match=r"'1.json' in workspace 'dfs': column 'a'"):
        tracker.projection_filter(FILE).project(offered)


def test_columns_beside_provided_schema_do_not_become_text(schema, read):
    tracker = ScanSchemaTracker(["*"], provided=schema(a=TEXT, m=struct(x=TEXT)))
    read(tracker, {"a": LONG, "b": TEXT, "m": struct(x=LONG, y=TEXT)})
    assert tracker.output_schema() == schema(a=TEXT, m=struct(x=TEXT, y=TEXT), b=TEXT)
    for name, type_, column in (("b", LONG, "b"), ("m", struct(y=LONG), "m.y")):
        with pytest.raises(SchemaConflictError) as raised:
            tracker.projection_filter(FILE).project(pa.field(name, type_))
        assert raised.value.column == column


def test_provided_column_may_be_late(schema, read):
    tracker = ScanSchemaTracker(["*"], provided=schema(b=LATE, a=INT))
    read(tracker, {"a": INT, "b": TEXT})
    assert tracker.output_schema() == schema(b=TEXT, a=INT)


def test_column_of_no_file_has_provided_type_and_default(schema):
    column = pa.field("a", INT, nullable=False, metadata={b"lodge.default": b"7"})
    tracker = ScanSchemaTracker(["a"], provided=schema(a=column))
    missing = tracker.missing_columns(TupleSchema())
    assert missing.find("a").metadata == column.metadata
    tracker.resolve_missing_cols(missing)
    assert tracker.output_schema() == missing


def test_empty_strict_schema_only_counts_rows():
    tracker = ScanSchemaTracker(["*"], provided=TupleSchema(), is_strict=True)
    assert tracker.projection_filter(FILE).is_empty
