import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import PathNotFoundError, PathRefusedError
from engine.path_patterns import fixed_directory, is_pattern, matches
from engine.storage.files import list_files


def list_paths(source):
    return [file.path for file in list_files(source)]


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


@given(st.lists(st.sampled_from(["**", "*", "a"]), min_size=1, max_size=40), st.integers(0, 40))
def test_many_stars_are_matched_in_linear_time(parts, length):
    matches("/".join(parts), "/".join(["a"] * length + ["b"]))


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
