import pytest

from engine.errors import ProjectionError
from engine.scan.implicit import FileLocation, implicit_field, partition_fields


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("fqn", "/logs/2026/11/a.csv.gz"),
        ("filepath", "/logs/2026/11"),
        ("FileName", "a.csv.gz"),
        ("suffix", "gz"),
        ("dir0", "2026"),
        ("DIR1", "11"),
        ("dir2", None),
    ],
)
def test_a_column_tells_where_the_row_comes_from(name, value):
    location = FileLocation.of("logs/2026/11/a.csv.gz", "logs")
    field = implicit_field(name)
    assert location.column(field, 3).to_pylist() == [value] * 3
    assert location.column(field, 0).type == field.type


@pytest.mark.parametrize("name", ["dir", "dir01", "dir-1", "dirx", "file", "columns", ""])
def test_other_names_are_the_tables_own(name):
    assert implicit_field(name) is None


def test_a_selected_file_has_no_partitions():
    assert FileLocation.of("logs/a.csv", "logs/a.csv").value("dir0") is None


def test_all_of_the_workspace_can_be_selected():
    assert FileLocation.of("a/b.csv", ".").value("dir0") == "a"


def test_a_wildcard_has_as_many_partitions_as_the_deepest_file():
    locations = [FileLocation.of(path, "x") for path in ("x/a/b/1.csv", "x/2.csv", "x/a/3.csv")]
    assert [field.name for field in partition_fields(locations)] == ["dir0", "dir1"]
    assert partition_fields([]) == []


@pytest.mark.parametrize("path", ["y/1.csv", "x/../y/1.csv", "/x/1.csv", "xx/1.csv"])
def test_a_file_outside_of_the_selection_is_refused(path):
    with pytest.raises(ProjectionError, match="does not lie below 'x'"):
        FileLocation.of(path, "x")
