"""Defined schemas, to which readers must conform."""

import pyarrow as pa
import pytest

from engine.context import ErrorContext
from engine.errors import ProjectionError, SchemaConflictError
from engine.projection.project_list import ProjectionType
from engine.schema import TupleSchema
from engine.schema_tracker.tracker import ScanSchemaTracker

INT, LONG, TEXT, LATE = pa.int32(), pa.int64(), pa.string(), pa.null()
FILE = ErrorContext("dfs", "1.json")


def struct(**members):
    return pa.struct(list(members.items()))


def test_defined_schema_is_output_schema_before_any_reader(schema):
    defined = schema(a=INT, b=TEXT)
    tracker = ScanSchemaTracker(["A", "b"], defined=defined)
    assert tracker.output_schema() == tracker.reader_input_schema() == defined
    assert tracker.is_resolved()
    assert tracker.projection_type() is ProjectionType.SOME


@pytest.mark.parametrize(
    "elements",
    [["a"], ["a", "b", "c"], ["c", "d"], ["b", "a"], [], ["a", "c"], ["c", "*"]],
    ids=["too short", "too long", "disjoint", "other order", "empty", "other name", "beside a wildcard"],
)
def test_defined_schema_unlike_project_list_is_refused(schema, elements):
    with pytest.raises(ProjectionError, match=r"^workspace 'dfs': .*\(a, b\)"):
        ScanSchemaTracker(elements, defined=schema(a=INT, b=TEXT), context=ErrorContext("dfs"))


def test_empty_project_list_equals_empty_defined_schema():
    tracker = ScanSchemaTracker([], defined=TupleSchema())
    assert tracker.projection_type() is ProjectionType.NONE
    assert tracker.is_resolved()


@pytest.mark.parametrize("elements", [["*"], ["*", "B"]])
def test_wildcard_over_defined_schema_is_its_columns(schema, read, elements):
    defined = schema(a=INT, b=TEXT)
    tracker = ScanSchemaTracker(elements, defined=defined)
    assert tracker.is_resolved()
    assert not tracker.has_wildcard()
    assert read(tracker, {"b": TEXT, "c": INT}) == schema(b=TEXT)
    assert tracker.output_schema() == defined


def test_reader_resolves_late_defined_columns(schema, read):
    tracker = ScanSchemaTracker(["a", "b"], defined=schema(a=LATE, b=TEXT))
    assert not tracker.is_resolved()
    version = tracker.schema_version()
    read(tracker, {"a": INT, "b": TEXT})
    assert tracker.output_schema() == schema(a=INT, b=TEXT)
    assert tracker.schema_version() > version


def test_missing_column_has_defined_type(schema):
    defined = schema(a=INT, b=pa.field("b", TEXT, nullable=False))
    assert ScanSchemaTracker(["a", "b"], defined=defined).missing_columns(schema(a=INT)) == defined.without(["a"])


def test_reader_gets_defined_type_if_its_own_can_become_it(schema, read):
    tracker = ScanSchemaTracker(["a"], defined=schema(a=LONG))
    assert read(tracker, {"A": pa.field("A", INT, nullable=False)}) == schema(a=LONG)


@pytest.mark.parametrize(
    "offered",
    [pa.field("a", TEXT), pa.field("a", pa.float64()), pa.field("a", pa.list_(LONG)), pa.field("a", struct(x=LONG))],
)
def test_type_that_cannot_become_defined_one_conflicts(schema, offered):
    tracker = ScanSchemaTracker(["a"], defined=schema(a=LONG))
    with pytest.raises(SchemaConflictError, match=r"'1.json' in workspace 'dfs': column 'a' is .* but bigint"):
        tracker.projection_filter(FILE).project(offered)


def test_only_provided_columns_convert_from_or_to_text(schema, read):
    defined = schema(found=TEXT, declared=TEXT, number=LONG)
    tracker = ScanSchemaTracker(["*"], defined=defined, provided=schema(declared=TEXT, number=LONG))
    assert read(tracker, {"declared": LONG, "number": TEXT}) == schema(declared=TEXT, number=LONG)
    with pytest.raises(SchemaConflictError, match="'found' is bigint"):
        tracker.projection_filter(FILE).project(pa.field("found", LONG))


def test_defined_schema_never_grows(schema, read):
    defined = schema(m=struct(x=INT))
    tracker = ScanSchemaTracker(["m"], defined=defined, allows_schema_change=True)
    assert read(tracker, {"m": struct(x=INT, y=INT), "n": INT}) == defined
    assert tracker.output_schema() == defined


@pytest.mark.parametrize("elements", [["m"], ["m.x", "m.y"], ["M.X", "m", "m.y"]])
def test_defined_map_may_be_named_whole_or_by_all_members(schema, elements):
    defined = schema(m=struct(x=INT, y=TEXT))
    assert ScanSchemaTracker(elements, defined=defined).output_schema() == defined


@pytest.mark.parametrize("elements", [["m.x"], ["m.x", "m.y", "m.z"], ["m.x", "m.z"], ["m.y", "m.x"]])
def test_defined_map_with_other_members_is_refused(schema, elements):
    with pytest.raises(ProjectionError, match=r"in 'm', but the defined schema has \(x, y\)"):
        ScanSchemaTracker(elements, defined=schema(m=struct(x=INT, y=TEXT)))


def test_nested_map_is_compared_too(schema):
    defined = schema(m=struct(n=struct(x=INT, y=TEXT)))
    ScanSchemaTracker(["m.n.x", "m.n.y"], defined=defined)
    with pytest.raises(ProjectionError, match=r"in 'm.n'"):
        ScanSchemaTracker(["m.n.x"], defined=defined)


@pytest.mark.parametrize(
    ("elements", "type_"),
    [
        (["m[1]"], INT),
        (["m.x"], INT),
        (["m[1]"], struct(x=INT)),
        (["m.x"], pa.list_(INT)),
        (["m.x[0]"], struct(x=INT)),
        (["m.x.y"], struct(x=INT)),
        (["m.x[0]"], struct(x=struct(y=INT))),
    ],
)
def test_path_unsuitable_for_defined_type_is_refused(schema, elements, type_):
    with pytest.raises(ProjectionError, match=r"selects m"):
        ScanSchemaTracker(elements, defined=schema(m=type_))
