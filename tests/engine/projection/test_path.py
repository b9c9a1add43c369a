import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import ProjectionError
from engine.projection.path import ProjectedPath, merge_by_name, quote_name

names = st.text(max_size=6)


@st.composite
def paths(draw, depth=3):
    steps = [quote_name(draw(st.sampled_from(["a", "B", "c.d"])))]
    for _ in range(draw(st.integers(0, depth))):
        steps.append(draw(st.sampled_from([".a", ".b", ".A", "[0]", "[7]"])))
    return ProjectedPath.parse("".join(steps))


def test_name_is_a_column_of_any_type():
    path = ProjectedPath.parse("Amount")
    assert (path.name, path.is_simple, path.is_whole, path.indexes) == ("Amount", True, True, None)


def test_member_is_named_with_a_dot():
    path = ProjectedPath.parse("m.a")
    assert path.is_map and not path.is_array and not path.is_whole
    assert [member.name for member in path.members] == ["a"]
    assert path.member("A").is_whole
    assert path.member("b") is None


def test_index_is_in_brackets():
    path = ProjectedPath.parse("a[1]")
    assert path.is_array and not path.is_map
    assert (path.dimensions, path.indexes) == (1, (1,))


def test_dimensions_are_counted():
    assert ProjectedPath.parse("a[0][1]").dimensions == 2


def test_members_and_indexes_nest():
    path = ProjectedPath.parse("m.a[2].b")
    inner = path.member("a")
    assert (inner.dimensions, inner.indexes, inner.member("b").is_simple) == (1, (2,), True)


def test_backquotes_keep_dots_in_a_name():
    path = ProjectedPath.parse("`a.b`.`c[1]`")
    assert path.name == "a.b"
    assert path.member("c[1]") is not None


@given(names, names)
def test_quoted_name_is_parsed_back(outer, inner):
    path = ProjectedPath.parse(f"{quote_name(outer)}.{quote_name(inner)}")
    assert (path.name, path.members[0].name) == (outer, inner)


@pytest.mark.parametrize(
    "text",
    ["", " ", ".a", "a.", "a..b", "a[", "a[]", "a[-1]", "a[x]", "a]", "[1]", "m.*", "`a", "a b", "a[1]b", "a`b`"],
)
def test_malformed_path_is_refused(text):
    with pytest.raises(ProjectionError) as raised:
        ProjectedPath.parse(text)
    assert repr(text) in str(raised.value)


def test_too_large_index_is_refused():
    with pytest.raises(ProjectionError, match="index 2147483648"):
        ProjectedPath.parse("a[2147483648]")
    with pytest.raises(ProjectionError, match="index"):
        ProjectedPath.parse(f"a[{'9' * 10_000}]")


def test_too_deep_path_is_refused():
    with pytest.raises(ProjectionError, match="has 101 names"):
        ProjectedPath.parse(".".join(["a"] * 101))


@pytest.mark.parametrize("text", ["a", "m.a", "a[1]", "m.a[2].b", "`a.b`.c"])
def test_path_prints_as_written(text):
    assert str(ProjectedPath.parse(text)) == text


@given(paths(), paths())
def test_merging_does_not_depend_on_order(one, other):
    def meaning(path):
        members = frozenset(meaning(member) for member in path.members)
        return path.name.casefold(), members, path.is_whole, path.dimensions, path.indexes

    merged = {meaning(path) for path in merge_by_name([one, other])}
    assert merged == {meaning(path) for path in merge_by_name([other, one])}


@given(st.lists(paths(), max_size=6))
def test_merging_is_idempotent(listed):
    merged = merge_by_name(listed)
    assert merge_by_name([*merged, *listed]) == merged
