import re
from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import PathNotFoundError, PathRefusedError, PatternError, PatternSyntaxError
from engine.path_patterns import PathPattern, fixed_directory, is_pattern
from engine.storage.files import list_files


def list_paths(source):
    return [file.path for file in list_files(source)]


def matches(pattern, path):
    return PathPattern("dfs", pattern).matches(path)


def steps_for(pattern, path):
    """Return how many steps a comparison takes, by trying limits."""
    low, high = 0, 1
    while not has_enough(pattern, path, high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if has_enough(pattern, path, middle) else (middle, high)
    return high


def has_enough(pattern, path, max_steps):
    try:
        PathPattern("dfs", pattern, max_steps).matches(path)
    except PatternError:
        return False
    return True


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("logs/*.csv", "logs/a.csv"),
        ("logs/2026-1?/a.csv", "logs/2026-11/a.csv"),
        ("logs/[ab].csv", "logs/b.csv"),
        ("logs/*", "logs/2026/a.csv"),
        ("**/a.csv", "a.csv"),
        ("**/a.csv", "x/y/a.csv"),
        ("logs/**", "logs/x/a.csv"),
        ("logs/**/x/**/*.csv", "logs/x/a.csv"),
        ("**/**/a.csv", "x/a.csv"),
        ("logs/{2025,2026/{01,1?}}/*.csv", "logs/2026/12/a.csv"),
        ("{logs/a,b/{x,*}}.csv", "b/c.csv"),
        ("a{,.gz}", "a"),
        (r"\[a\]{\{,\,}\*", "[a],*"),
        ("[^b]]", "a]"),
        (r"[\]\-]", "-"),
        ("a?},b]^!", "ab},b]^!"),
    ],
)
def test_pattern_matches_files_and_whole_directories(pattern, path):
    assert is_pattern(pattern)
    assert matches(pattern, path)


@pytest.mark.parametrize(
    ("pattern", "path"),
    [("logs/*.csv", "logs/a.tsv"), ("*.csv", "x/a.csv"), ("logs/?.csv", "logs/ab.csv"), ("**/b", "x/a.csv")],
)
def test_star_matches_within_one_directory(pattern, path):
    assert not matches(pattern, path)


@pytest.mark.parametrize(
    ("pattern", "directory"), [("a/b/*.csv", "a/b"), ("*.csv", "."), ("a/*/b/c.csv", "a"), ("a/b.csv", "a/b.csv")]
)
def test_fixed_directory_ends_before_the_first_wildcard(pattern, directory):
    assert str(fixed_directory(pattern)) == directory


CHARACTERS = st.sampled_from("ab-]!*?[")
NAMES = st.text(st.sampled_from("ab-]!["), min_size=1, max_size=8)


@given(st.text(CHARACTERS, min_size=1, max_size=10).filter(lambda text: "**" not in text), NAMES)
def test_name_matches_as_in_fnmatch(pattern, name):
    try:
        found = matches(pattern, name)
    except PatternSyntaxError:
        assert "[" in pattern
    else:
        assert found == fnmatchcase(name, pattern)


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        ("[a", "is not closed"),
        ("[]", "is not closed"),
        ("[^]", "is not closed"),
        ("{a,{b}", "is not closed"),
        ("a\\", "must follow the backslash"),
        (r"\d*", "the character d does not need a backslash"),
        ("[b-a]", "the range b-a is empty"),
        ("[a?]", "needs a backslash"),
        ("[[a]", "needs a backslash"),
        ("{[a,b],c}", "a comma in"),
    ],
)
def test_malformed_pattern_is_refused(pattern, problem):
    with pytest.raises(PatternSyntaxError, match=re.escape(problem)):
        PathPattern("dfs", pattern)


@pytest.mark.parametrize("pattern", ["{a,b}" * 40, "{a,{b,{c,d}}}" * 40, f"{{{','.join(map(str, range(2000)))}}}"])
def test_pattern_with_many_alternatives_is_refused_at_once(pattern):
    with pytest.raises(PatternError, match="has more than 1,000 alternatives"):
        PathPattern("dfs", pattern)


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("*a" * 15, "a" * 30 + "b"),
        ("*[ab]" * 15, "a" * 30 + "c"),
        ("*?[!b]" * 10, "b" * 40),
        ("**/" * 20 + "b", "a/" * 20 + "c"),
        ("**/*/" * 20 + "b", "a/" * 20 + "c"),
        ("**/a/" * 20 + "b", "a/" * 30 + "c"),
    ],
)
def test_twice_the_text_takes_at_most_eight_times_the_steps(pattern, path):
    """A pattern and a path that are both twice as long have four times as many pairs of parts, of twice the length."""
    assert steps_for(pattern * 2, path * 2) <= 8 * steps_for(pattern, path)


def test_pattern_that_takes_too_many_steps_is_refused():
    pattern = PathPattern("dfs", "logs/*a*b*c", max_steps=1000)
    with pytest.raises(PatternError, match=r"a pattern needs more than 1,000 comparisons") as error:
        for number in range(1000):
            pattern.matches(f"logs/{number}")
    assert error.value.parameters == {"file": "logs/*a*b*c", "workspace": "dfs"}


def test_pattern_finds_files_inside_the_workspace_only(workspace):
    for path in ("logs/a.csv", "logs/b.csv", "logs/c.txt", "logs/x/d.csv", "other/e.csv"):
        workspace.write(path)
    assert list_paths(workspace.scan("logs/*.csv")) == ["logs/a.csv", "logs/b.csv"]
    assert list_paths(workspace.scan("**/*.csv")) == ["logs/a.csv", "logs/b.csv", "logs/x/d.csv", "other/e.csv"]
    with pytest.raises(PathNotFoundError):
        list_paths(workspace.scan("logs/*.json"))
    workspace.link("logs/out", workspace.outside)
    with pytest.raises(PathRefusedError, match="leads out"):
        list_paths(workspace.scan("logs/*/secret.csv"))


def test_existing_path_is_not_a_pattern(workspace):
    for path in ("logs/[a].csv", "logs/a.csv"):
        workspace.write(path)
    assert list_paths(workspace.scan("logs/[a].csv")) == ["logs/[a].csv"]
