import pytest

from engine.errors import ProjectionError
from engine.projection.project_list import EVERYTHING, NOTHING, ProjectionList, ProjectionType


def parse(*elements):
    return ProjectionList.parse(elements)


def names(projection):
    return [path.name for path in projection.columns]


def test_star_selects_all_columns():
    assert parse("*") == EVERYTHING
    assert EVERYTHING.type is ProjectionType.ALL
    assert EVERYTHING.find("any").is_whole


def test_empty_list_selects_no_column():
    assert parse() == NOTHING
    assert NOTHING.type is ProjectionType.NONE
    assert NOTHING.find("any") is None


def test_named_columns_keep_their_order_and_letter_case():
    projection = parse("b", "A", "c")
    assert projection.type is ProjectionType.SOME
    assert names(projection) == ["b", "A", "c"]
    assert projection.find("a").name == "A"
    assert projection.find("d") is None


def test_column_named_twice_in_any_case_is_listed_once():
    assert names(parse("a", "b", "A", "a")) == ["a", "b"]


@pytest.mark.parametrize("elements", [("m", "M.a"), ("m.a", "M")])
def test_map_and_its_member_select_whole_map(elements):
    path = parse(*elements).find("m")
    assert path.is_whole
    assert path.is_map, "the member still says that the column is a map"
    assert path.member("other") is not None


def test_members_of_one_map_are_merged():
    path = parse("m.a", "x", "M.b", "m.A").find("m")
    assert [member.name for member in path.members] == ["a", "b"]
    assert not path.is_whole


def test_indexes_of_one_array_are_merged():
    assert parse("a[5]", "A[0]", "a[5]").find("a").indexes == (0, 5)


def test_array_and_its_element_select_whole_array():
    path = parse("a[5]", "a").find("a")
    assert path.indexes is None
    assert path.is_array


def test_largest_number_of_dimensions_counts():
    assert parse("a[0]", "a[1][2]").find("a").dimensions == 2


@pytest.mark.parametrize(("elements", "before"), [(("a", "*"), 1), (("*", "a"), 0), (("a", "*", "b", "A"), 1)])
def test_wildcard_keeps_its_place_among_named_columns(elements, before):
    projection = parse(*elements)
    assert projection.type is ProjectionType.ALL
    assert projection.wildcard_at == before


def test_two_wildcards_are_one():
    assert parse("*", "a", "*") == parse("*", "a")


def test_wildcard_selects_maps_whole():
    path = parse("*", "m.a.b").find("m")
    assert path.is_whole and path.member("a").is_whole
    assert path.is_map


def test_quoted_star_is_a_name():
    assert parse("`*`").type is ProjectionType.SOME


def test_malformed_element_is_refused():
    with pytest.raises(ProjectionError, match=r"'m\.\*'"):
        parse("a", "m.*")
