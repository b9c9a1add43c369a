"""Early schemas, of readers that know their columns before they read."""

import pyarrow as pa
import pytest

from engine.context import ErrorContext
from engine.errors import ProjectionError, SchemaConflictError
from engine.schema import TupleSchema
from engine.schema_tracker.tracker import ScanSchemaTracker
from engine.type_names import type_name

INT, LONG, TEXT = pa.int32(), pa.int64(), pa.string()
FILE = ErrorContext("dfs", "1.parquet")
SUBSET, EQUAL, SUPERSET = {"a": INT}, {"b": TEXT, "a": INT}, {"c": INT, "b": TEXT, "a": INT}


def test_early_schema_expands_wildcard_before_first_batch(schema):
    tracker = ScanSchemaTracker(["*"])
    tracker.apply_early_reader_schema(schema(b=INT, a=TEXT), FILE)
    assert tracker.is_resolved()
    assert tracker.output_schema() == schema(b=INT, a=TEXT)


def test_early_schema_resolves_explicit_list(schema):
    tracker = ScanSchemaTracker(["A", "x"])
    tracker.apply_early_reader_schema(schema(b=INT, a=TEXT), FILE)
    assert not tracker.is_resolved()
    assert tracker.missing_columns(schema(A=TEXT)).names == ["x"]
    assert tracker.output_schema().find("a") == pa.field("A", TEXT)


@pytest.mark.parametrize(
    ("early", "is_strict", "expected"),
    [
        (SUBSET, False, ["a", "b"]),
        (EQUAL, False, ["a", "b"]),
        (SUPERSET, False, ["a", "b", "c"]),
        (SUBSET, True, ["a", "b"]),
        (EQUAL, True, ["a", "b"]),
        (SUPERSET, True, ["a", "b"]),
    ],
)
def test_early_schema_with_provided_schema_and_wildcard(schema, early, is_strict, expected):
    tracker = ScanSchemaTracker(["*"], provided=schema(a=LONG, b=TEXT), is_strict=is_strict)
    tracker.apply_early_reader_schema(schema(**early), FILE)
    assert tracker.output_schema().names == expected
    assert tracker.output_schema().find("a").type == LONG
    assert tracker.is_resolved()


@pytest.mark.parametrize("early", [SUBSET, EQUAL, SUPERSET])
@pytest.mark.parametrize("is_strict", [False, True])
def test_early_schema_with_provided_schema_and_explicit_list(schema, early, is_strict):
    tracker = ScanSchemaTracker(["b", "a"], provided=schema(a=LONG, b=TEXT), is_strict=is_strict)
    tracker.apply_early_reader_schema(schema(**early), FILE)
    assert tracker.output_schema() == schema(b=TEXT, a=LONG)


@pytest.mark.parametrize(
    "early",
    [
        pa.field("a", pa.float64()),
        pa.field("a", pa.list_(LONG), nullable=False),
        pa.field("a", LONG),
    ],
    ids=["type", "array", "nullable"],
)
@pytest.mark.parametrize("given", ["lenient", "strict", "defined"])
def test_early_schema_conflict_names_column_file_and_types(early, given):
    promised = TupleSchema([pa.field("a", LONG, nullable=False)])
    if given == "defined":
        tracker = ScanSchemaTracker(["a"], defined=promised)
    else:
        tracker = ScanSchemaTracker(["a"], provided=promised, is_strict=given == "strict")
    with pytest.raises(SchemaConflictError) as raised:
        tracker.apply_early_reader_schema(TupleSchema([early]), FILE)
    assert str(raised.value).startswith(f"'1.parquet' in workspace 'dfs': column 'a' is {type_name(early.type)}")
    assert "but bigint not null" in str(raised.value)


def test_early_schema_unsuitable_for_project_list_is_refused(schema):
    with pytest.raises(ProjectionError, match=r"'1.parquet'.*a\[1\]"):
        ScanSchemaTracker(["a[1]"]).apply_early_reader_schema(schema(a=INT), FILE)


def test_later_early_schema_follows_the_first(schema):
    tracker = ScanSchemaTracker(["*"])
    tracker.apply_early_reader_schema(schema(a=LONG, b=TEXT), FILE)
    tracker.apply_early_reader_schema(schema(b=TEXT, a=INT, c=INT), FILE)
    assert tracker.output_schema() == schema(a=LONG, b=TEXT)


def test_early_schema_without_file_has_context_of_scan(schema):
    tracker = ScanSchemaTracker(["a"], defined=schema(a=INT), context=ErrorContext("dfs"))
    with pytest.raises(SchemaConflictError, match=r"^workspace 'dfs': "):
        tracker.apply_early_reader_schema(schema(a=TEXT))
