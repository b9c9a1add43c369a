"""The findings of tasks that examine files. Numbers in comments are the guarantees of ``engine.discovery``."""

import itertools
import json
import subprocess
import sys

import pyarrow as pa
import pytest

from engine.discovery import FailedDiscoveryError, decode_schema, encode_schema, examine, read_findings
from engine.errors import UnreadableFileError
from engine.scan.reader import SourceFile
from engine.schema import TupleSchema

SCHEMAS = [TupleSchema([pa.field("a", type_)]) for type_ in (pa.int64(), pa.string(), pa.int64(), pa.null())]


def discover(file):
    if file.path.startswith("bad"):
        raise UnreadableFileError("dfs", file.path, "it is bad")
    return SCHEMAS[int(file.path)]


def findings(*groups):
    found = []
    for group in groups:
        files = [(number, SourceFile("dfs", path, 1, lambda: None)) for number, path in group]
        found += examine(files, discover).to_pylist()
    return found


def test_schemas_are_in_the_order_of_the_files_however_they_are_grouped():  # 1
    numbered = list(enumerate("0123"))
    expected = [encode_schema(schema) for schema in SCHEMAS]
    for order in itertools.permutations(numbered):
        for cut in range(4):
            rows = findings(order[:cut], order[cut:])
            assert read_findings(reversed(rows), 4) == expected


def test_schema_of_several_files_is_returned_once():
    (one, other) = findings([(0, "0"), (1, "2"), (2, "1")])
    assert (one["files"], other["files"]) == ([0, 1], [2])


def test_error_of_the_first_file_is_reported():  # 2
    for rows in itertools.permutations(findings([(0, "0"), (2, "bad2")], [(1, "bad1"), (3, "1")])):
        with pytest.raises(FailedDiscoveryError) as raised:
            read_findings(rows, 4)
        assert "'bad1' in workspace 'dfs'" in raised.value.report.text
        assert raised.value.report.condition == "LODGE_UNREADABLE_FILE"
        assert "UnreadableFileError" in raised.value.traceback


@pytest.mark.parametrize("numbers", [[0], [0, 1, 1], [0, 2], [0, -1], [0, 1, 0]])
def test_findings_that_do_not_cover_each_file_once_are_refused(numbers):  # 3
    rows = [{"files": [number], "schema": b"", "error": None} for number in numbers]
    with pytest.raises(ValueError, match="examined"):
        read_findings(rows, 2)


REPORT = {"condition": "LODGE_UNREADABLE_FILE", "sql_state": "58030", "text": "x", "parameters": {}}
ERRORS = [
    "[[],[],[]]",
    json.dumps([{**REPORT, "condition": "SPARK_ERROR"}, ""]),
    json.dumps([{**REPORT, "sql_state": "00000"}, ""]),
    json.dumps([{**REPORT, "condition": "SPARK_ERROR", "sql_state": ""}, ""]),
    json.dumps([{**REPORT, "condition": "SPARK_ERROR", "sql_state": None}, ""]),
    json.dumps([{**REPORT, "text": 1}, ""]),
    json.dumps([{**REPORT, "parameters": {"a": 1}}, ""]),
    json.dumps([{**REPORT, "other": 1}, ""]),
    json.dumps([REPORT, "x" * 100_000]),
    "[" * 60_000,
    "[" + "[]," * 1_000_000 + "[]]",
]


@pytest.mark.parametrize("error", ERRORS, ids=range(len(ERRORS)))
def test_error_of_another_form_is_refused(error):
    """A hostile backend can send any text."""
    with pytest.raises((ValueError, TypeError)):
        read_findings([{"files": [0], "schema": None, "error": error}], 1)


def test_metadata_of_a_schema_survives():
    schema = TupleSchema([pa.field("a", pa.int64(), nullable=False, metadata={"lodge.default": "7"})])
    assert decode_schema(encode_schema(schema)).to_arrow().equals(schema.to_arrow(), check_metadata=True)


READ = """
import sys
from functools import partial
from engine.discovery import examine
from engine.file_scan.file_scan import FileScan
from engine.file_scan.partition_reading import read_partition
from engine.file_scan.partitions import plan_partitions
from engine.file_scan.schema_discovery import discover_schema, examine_file
scan = FileScan.from_options({"workspace": "dfs", "root": sys.argv[1], "path": ""})
((file,),) = plan_partitions(scan)
assert examine([(0, file)], partial(examine_file, scan)).num_rows == 1
schema = discover_schema(scan)
(batch,) = read_partition(scan, [file], schema, is_declared=False)
assert (batch.num_rows, batch.schema.names) == (2, sys.argv[2].split(",")), batch.schema
assert "pandas" not in sys.modules, "the scan imported pandas"
"""


@pytest.mark.parametrize(
    ("path", "content", "columns"),
    [
        ("x/f.json", '{"a": 1}\n{"a": 2.5}\n', "a,dir0"),
        ("x/f.csv", "a,b\n1,x\n", "columns,dir0"),
        (
            "i=1/d=2026-01-02/f=0.5/g=x%20y/h=__HIVE_DEFAULT_PARTITION__/f.json",
            '{"a": 1}\n{"a": 2.5}\n',
            "a,i,d,f,g,h,dir0,dir1,dir2,dir3,dir4",
        ),
        ("t=2026-01-02 03%3A04%3A05/n=99999999999999999999/f.json", '{"a": 1}\n{"a": 2.5}\n', "a,t,n,dir0,dir1"),
    ],
)
def test_common_scans_do_not_import_pandas(tmp_path, path, content, columns):
    """An import of pandas takes half a second in each process, and each session has its own processes."""
    (tmp_path / path).parent.mkdir(parents=True)
    (tmp_path / path).write_text(content)
    subprocess.run([sys.executable, "-c", READ, tmp_path, columns], check=True)
