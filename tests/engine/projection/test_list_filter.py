import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.context import ErrorContext
from engine.errors import ProjectionError
from engine.projection.list_filter import ListFilter
from engine.projection.project_list import EVERYTHING, NOTHING, ProjectionList

FILE = ErrorContext("dfs", "a.json")
INT = pa.int64()
MAP = pa.struct([("a", INT), ("b", pa.string())])
TEXT_DICT = pa.map_(pa.string(), INT)
INT_DICT = pa.map_(pa.int32(), INT)


def project(elements, type_, name="c"):
    return ListFilter(ProjectionList.parse(elements), FILE).project(pa.field(name, type_))


FITTING = {
    "c": [INT, pa.list_(INT), MAP, TEXT_DICT, pa.null(), pa.dense_union([pa.field("i", INT)])],
    "c[1]": [pa.list_(INT), pa.large_list(INT), pa.list_(INT, 3), pa.list_(MAP), pa.list_(pa.list_(INT)), INT_DICT],
    "c[1][0]": [pa.list_(pa.list_(INT)), pa.map_(INT, pa.list_(INT)), pa.list_(INT_DICT), pa.null()],
    "c.a": [MAP, TEXT_DICT, pa.list_(MAP), pa.list_(TEXT_DICT), pa.null(), pa.list_(pa.null())],
    "c[1].a": [pa.list_(MAP), pa.list_(TEXT_DICT), pa.map_(INT, MAP), pa.list_(pa.null())],
    "c.a.b": [pa.struct([("a", MAP)]), pa.map_(pa.string(), MAP)],
}
CONFLICTING = [
    ("c[1]", INT, "which has no elements"),
    ("c[1]", MAP, "a map without indexes"),
    ("c[1]", TEXT_DICT, "keys are not integers"),
    ("c[1][0]", pa.list_(INT), "which has no elements"),
    ("c[1][0]", pa.list_(MAP), "a map without indexes"),
    ("c.a", INT, "which has no members"),
    ("c.a", pa.list_(INT), "elements without members"),
    ("c.a", INT_DICT, "keys are not text"),
    ("c[1].a", pa.list_(INT), "which has no members"),
    ("c[1].a", MAP, "a map without indexes"),
    ("c.a.b", MAP, "which has no members"),
    ("c.a.b", TEXT_DICT, "which has no members"),
    ("c.a[1]", MAP, "which has no elements"),
]


@pytest.mark.parametrize(("path", "type_"), [(path, type_) for path, types in FITTING.items() for type_ in types])
def test_column_of_suitable_type_is_projected(path, type_):
    assert project([path], type_).field is not None


@pytest.mark.parametrize(("path", "type_", "problem"), CONFLICTING)
def test_column_of_unsuitable_type_is_refused(path, type_, problem):
    with pytest.raises(ProjectionError) as raised:
        project([path], type_)
    message = str(raised.value)
    assert message.startswith("'a.json' in workspace 'dfs': column 'c")
    assert problem in message
    assert path in message


@pytest.mark.parametrize(("path", "type_", "problem"), CONFLICTING)
def test_wildcard_or_whole_column_does_not_hide_a_conflict(path, type_, problem):
    for elements in (["*", path], [path, "*"], ["c", path]):
        with pytest.raises(ProjectionError, match=problem):
            project(elements, type_)


def test_unnamed_column_is_not_projected():
    projected = project(["a"], MAP)
    assert projected.field is None
    assert projected.members.project(pa.field("a", INT)).field is None


def test_column_has_name_of_query():
    assert project(["AMOUNT"], INT, "amount").field.name == "AMOUNT"


def test_column_under_wildcard_has_name_of_reader():
    assert project(["*", "AMOUNT"], INT, "amount").field.name == "amount"


def test_only_named_members_of_map_are_projected():
    projected = project(["c.B"], MAP)
    assert projected.field.type == pa.struct([("B", pa.string())])
    assert projected.members.project(pa.field("a", INT)).field is None
    assert projected.members.project(pa.field("b", INT)).field.name == "B"


def test_array_of_maps_is_projected_like_map():
    projected = project(["c.a"], pa.list_(MAP))
    assert projected.field.type == pa.list_(pa.struct([("a", INT)]))
    assert projected.members.project(pa.field("b", INT)).field is None


def test_map_without_named_members_is_empty():
    assert project(["c.x"], MAP).field.type == pa.struct([])


def test_dict_is_projected_whole():
    type_ = pa.map_(pa.string(), MAP)
    assert project(["c.key.a"], type_).field.type == type_


def test_field_keeps_mode_and_metadata():
    field = pa.field("c", INT, nullable=False, metadata={b"lodge.default": b"7"})
    projected = ListFilter(ProjectionList.parse(["C"])).project(field).field
    assert not projected.nullable
    assert projected.metadata == field.metadata


def test_counting_rows_projects_no_column():
    assert ListFilter(NOTHING).is_empty
    assert not ListFilter(EVERYTHING).is_empty
    assert not ListFilter(ProjectionList.parse(["c"])).is_empty


@given(st.permutations("abc").flatmap(lambda members: st.sets(st.sampled_from(members)).map(lambda s: (members, s))))
def test_map_projects_like_its_members_one_by_one(case):
    members, wanted = case
    type_ = pa.struct([(member, INT) for member in members])
    projected = project([f"c.{member}" for member in sorted(wanted)] or ["c.x"], type_)
    asked = [projected.members.project(pa.field(member, INT)).field for member in members]
    assert list(projected.field.type) == [field for field in asked if field is not None]
    assert {field.name for field in projected.field.type} == wanted
