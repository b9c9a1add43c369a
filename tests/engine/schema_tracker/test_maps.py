"""Maps, dicts and arrays of maps, with every kind of given schema."""

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.context import ErrorContext
from engine.errors import ProjectionError, SchemaConflictError
from engine.schema import TupleSchema
from engine.schema_tracker.tracker import ScanSchemaTracker

INT, LONG, TEXT, LATE = pa.int32(), pa.int64(), pa.string(), pa.null()
FILE = ErrorContext("dfs", "1.json")
FORMS = ["none", "lenient", "strict", "defined"]


def struct(**members):
    return pa.struct(list(members.items()))


MAP = struct(a=INT, b=TEXT)


def tracker_in(form, elements, schema):
    """Return a tracker with a schema in one of the four forms."""
    options = {
        "none": {},
        "lenient": {"provided": schema},
        "strict": {"provided": schema, "is_strict": True},
        "defined": {"defined": schema},
    }
    return ScanSchemaTracker(elements, **options[form])


def check_refused(form, elements, type_):
    """Check that an unsuitable type is refused, when the tracker is created or when a reader offers it."""
    with pytest.raises(ProjectionError, match=r"column 'm"):
        tracker_in(form, elements, TupleSchema([pa.field("m", type_)])).projection_filter(FILE).project(
            pa.field("m", type_)
        )


@pytest.mark.parametrize("form", FORMS)
def test_whole_map_has_all_members(schema, read, form):
    tracker = tracker_in(form, ["m"], schema(m=MAP))
    assert read(tracker, {"m": MAP}) == schema(m=MAP)
    assert tracker.output_schema() == schema(m=MAP)
    assert tracker.is_resolved()


@pytest.mark.parametrize("form", ["none", "lenient", "strict"])
def test_map_has_only_named_members(schema, read, form):
    tracker = tracker_in(form, ["M.B"], schema(m=MAP))
    assert read(tracker, {"m": MAP}) == schema(M=struct(B=TEXT))
    assert tracker.output_schema() == schema(M=struct(B=TEXT))
    assert tracker.is_resolved()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("elements", [["m.a", "m"], ["m", "m.a"]])
def test_map_named_whole_and_by_member_has_all_members(schema, read, form, elements):
    tracker = tracker_in(form, elements, schema(m=MAP))
    assert read(tracker, {"m": MAP}) == schema(m=MAP)
    assert tracker.output_schema() == schema(m=MAP)


@pytest.mark.parametrize("form", FORMS)
def test_nested_maps_are_projected_by_path(schema, read, form):
    held = struct(n=struct(x=INT) if form == "defined" else struct(x=INT, y=TEXT))
    tracker = tracker_in(form, ["m.n.x"], schema(m=held))
    assert read(tracker, {"m": struct(n=struct(x=INT, y=TEXT), o=INT)}) == schema(m=struct(n=struct(x=INT)))
    assert tracker.output_schema() == schema(m=struct(n=struct(x=INT)))


@pytest.mark.parametrize("form", FORMS)
def test_array_of_maps_is_projected_like_map(schema, read, form):
    held = pa.list_(struct(a=INT) if form == "defined" else MAP)
    tracker = tracker_in(form, ["m.a"], schema(m=held))
    assert read(tracker, {"m": pa.list_(MAP)}) == schema(m=pa.list_(struct(a=INT)))


@pytest.mark.parametrize("form", FORMS)
def test_dict_may_be_named_by_key(schema, read, form):
    held = pa.map_(TEXT, INT)
    tracker = tracker_in(form, ["m.key"], schema(m=held))
    assert read(tracker, {"m": held}) == schema(m=held)
    assert tracker.output_schema() == schema(m=held)
    with pytest.raises(SchemaConflictError):
        tracker.projection_filter(FILE).project(pa.field("m", struct(key=INT)))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("elements", "type_"),
    [
        (["m.a"], INT),
        (["m.a"], pa.list_(INT)),
        (["m[1]"], INT),
        (["m[1]"], MAP),
        (["m.a[1]"], struct(a=INT)),
        (["m.a.x"], struct(a=INT)),
        (["m.a.x"], struct(a=pa.list_(INT))),
        (["m.a[1]"], struct(a=struct(x=INT))),
    ],
)
def test_path_of_other_structure_is_refused(form, elements, type_):
    check_refused(form, elements, type_)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("types", "column"),
    [
        ((MAP, INT), "m"),
        ((INT, MAP), "m"),
        ((pa.list_(INT), MAP), "m"),
        ((MAP, pa.list_(MAP)), "m"),
        ((struct(a=INT), struct(a=struct(x=INT))), "m.a"),
        ((struct(a=struct(x=INT)), struct(a=struct(x=pa.list_(INT)))), "m.a.x"),
        ((pa.list_(struct(a=INT)), pa.list_(struct(a=pa.list_(INT)))), "m.a"),
    ],
)
def test_other_structure_than_promised_conflicts_and_names_member(schema, read, form, types, column):
    promised, offered = types
    tracker = tracker_in(form, ["m"], schema(m=promised))
    if form == "none":
        read(tracker, {"m": promised})
    with pytest.raises(SchemaConflictError) as raised:
        tracker.projection_filter(FILE).project(pa.field("m", offered))
    assert raised.value.column == column
    assert raised.value.context == FILE


@pytest.mark.parametrize("form", ["none", "lenient", "strict"])
def test_member_of_no_reader_is_missing_in_map(schema, form):
    tracker = tracker_in(form, ["m.x", "m.a"], schema(m=MAP))
    batch = TupleSchema([tracker.projection_filter(FILE).project(pa.field("m", MAP)).field])
    assert batch == schema(m=struct(a=INT))
    tracker.apply_reader_schema(batch, FILE)
    assert not tracker.is_resolved()
    assert tracker.missing_columns(batch) == schema(m=struct(x=LATE))
    tracker.resolve_missing_cols(schema(m=struct(x=TEXT)))
    assert tracker.output_schema() == schema(m=struct(x=TEXT, a=INT))
    assert tracker.is_resolved()


def test_member_outside_strict_schema_is_never_read(schema, read):
    tracker = tracker_in("strict", ["m.x", "m.a"], schema(m=struct(a=INT)))
    for _ in range(2):
        assert read(tracker, {"m": struct(a=INT, x=LONG)}) == schema(m=struct(a=INT))


def test_members_of_earlier_reader_are_missing_with_their_type(schema, read):
    tracker = ScanSchemaTracker(["m"])
    read(tracker, {"m": struct(a=INT, n=struct(x=INT, y=TEXT))})
    batch = read(tracker, {"m": struct(n=struct(x=INT))})
    assert tracker.missing_columns(batch) == schema(m=struct(a=INT, n=struct(y=TEXT)))


def test_wrong_guess_of_member_type_is_a_conflict(read):
    tracker = ScanSchemaTracker(["m.x"])
    read(tracker, {"m": struct(a=INT)})
    with pytest.raises(SchemaConflictError, match=r"column 'm.x' is bigint here, but string"):
        tracker.projection_filter(FILE).project(pa.field("m", struct(x=LONG)))


def test_map_of_no_reader_is_missing_and_wrong_guess_conflicts(schema, read):
    tracker = ScanSchemaTracker(["m.x"])
    assert tracker.missing_columns(TupleSchema()) == schema(m=LATE)
    read(tracker, {})
    with pytest.raises(SchemaConflictError, match=r"column 'm' is struct.* but string"):
        tracker.projection_filter(FILE).project(pa.field("m", MAP))


def test_first_reader_may_add_members_to_lenient_map(schema, read, caplog):
    tracker = tracker_in("lenient", ["m"], schema(m=struct(a=INT)))
    assert not tracker.is_resolved()
    read(tracker, {"m": struct(x=INT, A=INT)})
    assert tracker.output_schema() == schema(m=struct(a=INT, x=INT))
    read(tracker, {"m": struct(y=INT)})
    assert tracker.output_schema() == schema(m=struct(a=INT, x=INT))
    assert len(caplog.records) == 1


@pytest.mark.parametrize(("form", "warnings"), [("strict", 0), ("defined", 1)])
def test_strict_or_defined_map_gets_no_members(schema, read, form, warnings, caplog):
    tracker = tracker_in(form, ["m"], schema(m=struct(a=INT)))
    assert tracker.is_resolved()
    for _ in range(2):
        assert read(tracker, {"m": struct(x=INT, a=INT)}) == schema(m=struct(a=INT))
    assert len(caplog.records) == warnings


def test_late_map_is_limited_to_named_members(schema, read):
    tracker = tracker_in("defined", ["m.a", "n.a"], schema(m=LATE, n=pa.list_(LATE)))
    read(tracker, {"m": MAP, "n": pa.list_(MAP)})
    assert tracker.output_schema() == schema(m=struct(a=INT), n=pa.list_(struct(a=INT)))


def test_members_of_two_maps_may_have_the_same_name(schema, read):
    tracker = ScanSchemaTracker(["m.a", "n.a"])
    read(tracker, {"m": struct(a=INT), "n": struct(a=TEXT)})
    assert tracker.output_schema() == schema(m=struct(a=INT), n=struct(a=TEXT))


MEMBERS = st.lists(st.sampled_from("abcd"), unique=True, min_size=1)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(MEMBERS, MEMBERS, st.sampled_from([["m"], ["*"], ["m.a"], ["m.b", "m.c"]]), st.booleans())
def test_map_projects_like_its_members_one_by_one(read, first, later, elements, allows_schema_change):
    def asked(projection, type_):
        projected = projection.project(pa.field("m", type_))
        one_by_one = [projected.members.project(member).field for member in type_]
        assert list(projected.field.type) == [member for member in one_by_one if member is not None]

    tracker = ScanSchemaTracker(elements, allows_schema_change=allows_schema_change)
    for names in (first, later):
        type_ = pa.struct([(name, TEXT) for name in names])
        asked(tracker.projection_filter(FILE), type_)
        read(tracker, {"m": type_})
        asked(tracker.projection_filter(FILE), type_)
