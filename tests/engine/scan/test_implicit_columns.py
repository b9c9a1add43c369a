import pyarrow as pa
import pytest
from pyarrow import parquet

from engine.errors import ProjectionError
from engine.file_scan.file_scan import FileScan
from engine.file_scan.partition_reading import read_partition
from engine.file_scan.partitions import plan_partitions
from engine.file_scan.schema_discovery import discover_schema
from engine.scan.implicit_columns import FileLocation, implicit_field, partition_fields
from engine.scan_source import IMPLICIT_NAME, known_schema
from engine.schema import IMPLICIT_MARK


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
def test_implicit_columns_describe_the_file(name, value):
    location = FileLocation.of("logs/2026/11/a.csv.gz", "logs")
    field = implicit_field(name)
    assert location.column(field, 3).to_pylist() == [value] * 3
    assert location.column(field, 0).type == field.type


@pytest.mark.parametrize("name", ["dir", "dir01", "dir-1", "dirx", "file", "columns", ""])
def test_other_names_are_not_implicit(name):
    assert implicit_field(name) is None


def test_selected_file_has_no_partition_columns():
    assert FileLocation.of("logs/a.csv", "logs/a.csv").value("dir0") is None


def test_whole_workspace_can_be_selected():
    assert FileLocation.of("a/b.csv", ".").value("dir0") == "a"


def test_deepest_file_decides_partition_columns():
    locations = [FileLocation.of(path, "x") for path in ("x/a/b/1.csv", "x/2.csv", "x/a/3.csv")]
    assert [field.name for field in partition_fields(locations)] == ["dir0", "dir1"]
    assert partition_fields([]) == []


@pytest.mark.parametrize("path", ["y/1.csv", "x/../y/1.csv", "/x/1.csv", "xx/1.csv"])
def test_file_outside_selection_is_refused(path):
    with pytest.raises(ProjectionError, match="is not below 'x'"):
        FileLocation.of(path, "x")


def test_scan_source_and_scan_know_the_same_names():
    names = ["fqn", "FILEPATH", "filename", "suffix", "dir0", "Dir10", "dir01", "dir", "x", "columns"]
    assert [IMPLICIT_NAME.fullmatch(name) is not None for name in names] == [
        implicit_field(name) is not None for name in names
    ]


def test_each_file_has_its_own_implicit_values(scans):
    readers = [scans.reader(scans.batch(a=[number])) for number in range(3)]
    paths = ["x/1.x", "x/b/2.x", "x/b/c/3.x"]
    assert scans.read(*readers, selected="x", paths=paths, columns=["filename", "*"]) == [
        {"filename": "1.x", "a": 0, "dir0": None, "dir1": None},
        {"filename": "2.x", "a": 1, "dir0": "b", "dir1": None},
        {"filename": "3.x", "a": 2, "dir0": "b", "dir1": "c"},
    ]


def test_explicit_list_has_only_named_directories(scans):
    rows = scans.read(scans.reader(scans.batch(a=[1])), paths=["b/1.x"], columns=["dir1", "a", "DIR0"])
    assert rows == [{"dir1": None, "a": 1, "DIR0": "b"}]


@pytest.mark.parametrize("columns", [["filename"], ["filename", "*"]])
def test_file_without_rows_has_implicit_columns(scans, columns):
    reader = scans.reader(schema=pa.schema([("a", pa.int64())]))
    (batch,) = scans.of(reader, columns=columns).batches()
    assert (batch.num_rows, batch.schema.names[0]) == (0, "filename")


def test_list_of_implicit_columns_has_all_rows(scans):
    assert scans.read(scans.reader(scans.batch(a=[1, 2])), columns=["suffix"]) == [{"suffix": "x"}] * 2


def test_column_shadowed_by_implicit_one_is_left_out_with_a_warning(scans, caplog):
    rows = scans.read(scans.reader(scans.batch(a=[1], FileName=["mine"])), columns=["*", "filename"])
    assert rows == [{"a": 1, "filename": "0.x"}]
    assert "'0.x' in workspace 'dfs': column 'FileName' is ignored" in caplog.text


@pytest.mark.parametrize("path", ["filename.x", "filename[0]"])
def test_name_used_as_map_or_array_belongs_to_table(scans, path):
    value = {"x": 1} if path.endswith("x") else [1]
    assert scans.read(scans.reader(scans.batch(filename=[value])), columns=[path]) == [{"filename": value}]


def scan_rows(workspace, path=".", *, mentioned=None):
    """Return the rows of a scan of files, as Spark runs it."""
    scan = FileScan.from_options(workspace.scan(path).to_options(mentioned=mentioned))
    schema = discover_schema(scan)
    batches = [
        batch for files in plan_partitions(scan) for batch in read_partition(scan, files, schema, is_declared=False)
    ]
    return pa.Table.from_batches(batches).to_pylist()


@pytest.mark.parametrize("mentioned", [None, frozenset({"suffix", "dir0"})])
def test_column_of_files_wins_over_implicit_one(workspace, mentioned):
    workspace.write("x/1.jsonl", '{"Suffix":"Jr.","dir0":7}\n')
    workspace.write("x/2.jsonl", '{"dir0":8}\n')
    assert scan_rows(workspace, mentioned=mentioned) == [{"Suffix": "Jr.", "dir0": 7}, {"Suffix": None, "dir0": 8}]


def test_mentioned_implicit_columns_are_added(workspace):
    workspace.write("x/1.jsonl", '{"a":1,"b":2}\n')
    assert scan_rows(workspace, mentioned=frozenset({"a", "suffix", "dir0"})) == [
        {"a": 1, "dir0": "x", "suffix": "jsonl"}
    ]
    assert scan_rows(workspace) == [{"a": 1, "b": 2, "dir0": "x"}]


def test_text_without_header_has_implicit_columns(workspace):
    workspace.write("a.csv", "1,2\n")
    mentioned = frozenset({"columns", "filename"})
    assert known_schema("a.csv", {}, mentioned) is None
    assert scan_rows(workspace, "a.csv", mentioned=mentioned) == [{"columns": ["1", "2"], "filename": "a.csv"}]


def test_metadata_in_file_makes_no_column_implicit(workspace):
    field = pa.field("suffix", pa.string(), metadata=IMPLICIT_MARK)
    parquet.write_table(pa.table([["mine"]], schema=pa.schema([field])), workspace.write("a.parquet"))
    assert scan_rows(workspace) == [{"suffix": "mine"}]
