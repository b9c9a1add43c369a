"""A provided schema, lenient or strict, against a wildcard and an explicit project list."""

import pyarrow as pa
import pytest

from engine.context import ErrorContext
from engine.errors import SchemaConflictError
from engine.projection.project_list import ProjectionType
from engine.schema import TupleSchema
from engine.schema_tracker.provided import HIDDEN_KEY
from engine.schema_tracker.tracker import create_tracker

INT, LONG, TEXT, LATE = pa.int32(), pa.int64(), pa.string(), pa.null()
FILE = ErrorContext("dfs", "1.json")
HIDDEN = pa.field("h", INT, metadata={HIDDEN_KEY: b""})


def struct(**members):
    return pa.struct(list(members.items()))


def test_provided_columns_come_first_under_a_wildcard(schema, read):
    tracker = create_tracker(["*"], provided=schema(b=LONG, a=INT))
    assert tracker.reader_input_schema() == schema(b=LONG, a=INT)
    assert not tracker.is_resolved()
    read(tracker, {"x": TEXT, "a": INT, "B": INT})
    assert tracker.output_schema() == schema(b=LONG, a=INT, x=TEXT)


def test_a_lenient_schema_lets_only_the_first_reader_add_columns(schema, read):
    tracker = create_tracker(["*"], provided=schema(a=INT))
    read(tracker, {"x": TEXT})
    read(tracker, {"y": TEXT})
    assert tracker.output_schema() == schema(a=INT, x=TEXT)


def test_a_strict_schema_is_what_a_wildcard_stands_for(schema, read, caplog):
    tracker = create_tracker(["*"], provided=schema(a=INT, b=LONG), is_strict=True)
    assert tracker.projection_type() is ProjectionType.SOME
    assert tracker.has_wildcard()
    assert tracker.is_resolved()
    assert read(tracker, {"a": INT, "x": TEXT}) == schema(a=INT)
    assert tracker.output_schema() == schema(a=INT, b=LONG)
    assert not caplog.records


def test_a_strict_schema_does_not_grow_even_if_changes_are_allowed(schema, read):
    tracker = create_tracker(["*"], provided=schema(m=struct(x=INT)), is_strict=True, allows_schema_change=True)
    read(tracker, {"m": struct(x=INT, y=INT), "n": INT})
    assert tracker.output_schema() == schema(m=struct(x=INT))


def test_strictness_without_a_provided_schema_means_nothing(schema, read):
    tracker = create_tracker(["*"], is_strict=True)
    read(tracker, {"a": INT})
    assert tracker.output_schema() == schema(a=INT)


@pytest.mark.parametrize("is_strict", [False, True])
def test_hidden_columns_are_not_what_a_wildcard_stands_for(schema, read, is_strict):
    tracker = create_tracker(["*"], provided=schema(a=INT, h=HIDDEN), is_strict=is_strict)
    assert read(tracker, {"a": INT, "h": INT}) == schema(a=INT)
    assert tracker.output_schema() == schema(a=INT)


@pytest.mark.parametrize("is_strict", [False, True])
@pytest.mark.parametrize("elements", [["H"], ["*", "H"]])
def test_hidden_columns_come_by_name(schema, read, is_strict, elements):
    tracker = create_tracker(elements, provided=schema(h=HIDDEN), is_strict=is_strict)
    assert [field.type for field in read(tracker, {"h": INT})] == [INT]


@pytest.mark.parametrize("is_strict", [False, True])
def test_an_explicit_list_takes_the_provided_types_and_its_own_order(schema, is_strict):
    tracker = create_tracker(["c", "A"], provided=schema(a=INT, b=TEXT, c=LONG), is_strict=is_strict)
    assert tracker.output_schema() == schema(c=LONG, A=INT)
    assert tracker.is_resolved()


def test_columns_outside_of_a_lenient_schema_are_the_readers(schema, read):
    tracker = create_tracker(["a", "x"], provided=schema(a=INT, b=TEXT))
    assert tracker.output_schema() == schema(a=INT, x=LATE)
    read(tracker, {"a": INT, "x": LONG})
    assert tracker.output_schema() == schema(a=INT, x=LONG)


def test_columns_outside_of_a_strict_schema_are_missing_whatever_a_reader_has(schema, read):
    tracker = create_tracker(["a", "x"], provided=schema(a=INT), is_strict=True)
    assert read(tracker, {"a": INT, "x": LONG}) == schema(a=INT)
    assert tracker.output_schema() == schema(a=INT, x=TEXT)
    assert read(tracker, {"a": INT, "x": struct(y=INT)}) == schema(a=INT)


@pytest.mark.parametrize("elements", [["*"], ["a"]])
@pytest.mark.parametrize("is_strict", [False, True])
@pytest.mark.parametrize("types", [(INT, LONG), (TEXT, LONG), (LONG, TEXT), (LATE, LONG)])
def test_the_provided_type_wins_and_the_readers_is_converted(schema, read, elements, is_strict, types):
    offered, declared = types
    tracker = create_tracker(elements, provided=schema(a=declared), is_strict=is_strict)
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
def test_a_type_or_mode_that_no_conversion_reaches_conflicts(is_strict, offered, declared):
    tracker = create_tracker(["*"], provided=TupleSchema([declared]), is_strict=is_strict)
    with pytest.raises(SchemaConflictError, match=r"'1.json' in workspace 'dfs': column 'a'"):
        tracker.projection_filter(FILE).project(offered)


def test_what_a_reader_discovered_beside_a_provided_schema_is_not_made_text(schema, read):
    tracker = create_tracker(["*"], provided=schema(a=TEXT, m=struct(x=TEXT)))
    read(tracker, {"a": LONG, "b": TEXT, "m": struct(x=LONG, y=TEXT)})
    assert tracker.output_schema() == schema(a=TEXT, m=struct(x=TEXT, y=TEXT), b=TEXT)
    for name, type_, column in (("b", LONG, "b"), ("m", struct(y=LONG), "m.y")):
        with pytest.raises(SchemaConflictError) as raised:
            tracker.projection_filter(FILE).project(pa.field(name, type_))
        assert raised.value.column == column


def test_a_provided_column_may_be_late(schema, read):
    tracker = create_tracker(["*"], provided=schema(b=LATE, a=INT))
    read(tracker, {"a": INT, "b": TEXT})
    assert tracker.output_schema() == schema(b=TEXT, a=INT)


def test_what_no_file_has_is_there_with_the_provided_type_and_default(schema):
    column = pa.field("a", INT, nullable=False, metadata={b"lodge.default": b"7"})
    tracker = create_tracker(["a"], provided=schema(a=column))
    missing = tracker.missing_columns(TupleSchema())
    assert missing.find("a").metadata == column.metadata
    tracker.resolve_missing_cols(missing)
    assert tracker.output_schema() == missing


def test_an_empty_strict_schema_leaves_only_rows_to_count():
    tracker = create_tracker(["*"], provided=TupleSchema(), is_strict=True)
    assert tracker.projection_filter(FILE).is_empty
