"""Files of one scan whose schemas drift: the outcome is right, or an error that names what is at odds; never wrong.

The rows of the table in docs/explanation/schema-drift.md, each for every format that can express it, in both orders
of the files.
"""

import io
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.errors import EngineError
from engine.file_scan import FileScan


def jsonl(rows, _types):
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def parquet(rows, types):
    names = list(types) if types else list(dict.fromkeys(name for row in rows for name in row))
    columns = [pa.array([row.get(name) for row in rows], (types or {}).get(name)) for name in names]
    sink = io.BytesIO()
    pq.write_table(pa.table(columns, names=names), sink)
    return sink.getvalue()


def csv(rows, _types):
    names = list(dict.fromkeys(name for row in rows for name in row))
    lines = [",".join(names)] + [",".join(str(row.get(name, "")) for name in names) for row in rows]
    return ("\n".join(lines) + "\n").encode()


WRITERS = {"jsonl": jsonl, "parquet": parquet, "csv": csv}


def scanned(workspace, path=".", **options):
    """The rows of a scan, and its types, as one process reads them part by part."""
    source = workspace.scan(path)
    scan = FileScan.from_options(source.to_options(reader=options))
    schema = scan.discover()
    batches = [batch for files in scan.parts() for batch in scan.batches(files, schema, is_declared=False)]
    return pa.Table.from_batches(batches, schema.to_arrow())


def outcome(workspace, format_, files, *, types=None, **options):
    for number, rows in enumerate(files):
        workspace.write(f"{number}.{format_}", WRITERS[format_](rows, types[number] if types else None))
    return scanned(workspace, **options)


def both_orders(files):
    return [files, files[::-1]]


@pytest.mark.parametrize("is_reversed", [False, True])
@pytest.mark.parametrize(
    ("format_", "files", "expected"),
    [
        ("jsonl", [[{"a": 1}], [{"a": 2, "b": 3}]], [{"a": 1, "b": None}, {"a": 2, "b": 3}]),
        ("parquet", [[{"a": 1}], [{"a": 2, "b": 3}]], [{"a": 1, "b": None}, {"a": 2, "b": 3}]),
        ("csv", [[{"a": "1"}], [{"a": "2", "b": "3"}]], [{"a": "1", "b": None}, {"a": "2", "b": "3"}]),
        ("jsonl", [[{"a": 1, "b": "x"}], [{"b": "y", "a": 2}]], [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]),
        ("parquet", [[{"a": 1, "b": "x"}], [{"b": "y", "a": 2}]], [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]),
        ("csv", [[{"a": "1", "b": "x"}], [{"b": "y", "a": "2"}]], [{"a": "1", "b": "x"}, {"a": "2", "b": "y"}]),
        ("jsonl", [[{"a": 1}], [{"a": 2**40}]], [{"a": 1}, {"a": 2**40}]),
        ("jsonl", [[{"a": 1}], [{"a": 1.5}]], [{"a": 1.0}, {"a": 1.5}]),
        ("parquet", [[{"a": 1}], [{"a": 1.5}]], [{"a": 1.0}, {"a": 1.5}]),
        ("csv", [[{"a": "1"}], [{"a": "1.5"}]], [{"a": "1"}, {"a": "1.5"}]),
        ("csv", [[{"a": "1"}], [{"a": "x"}]], [{"a": "1"}, {"a": "x"}]),
        ("jsonl", [[{"a": None}], [{"a": {"b": 1}}]], [{"a": None}, {"a": {"b": 1}}]),
        ("parquet", [[{"a": None}], [{"a": {"b": 1}}]], [{"a": None}, {"a": {"b": 1}}]),
        (
            "jsonl",
            [[{"a": {"b": 1}}], [{"a": {"b": 2, "c": 3}}]],
            [{"a": {"b": 1, "c": None}}, {"a": {"b": 2, "c": 3}}],
        ),
        (
            "parquet",
            [[{"a": {"b": 1}}], [{"a": {"b": 2, "c": 3}}]],
            [{"a": {"b": 1, "c": None}}, {"a": {"b": 2, "c": 3}}],
        ),
        ("jsonl", [[{"a": [1]}], [{"a": []}]], [{"a": [1]}, {"a": []}]),
        (
            "jsonl",
            [[{"a": [{"b": 1}]}], [{"a": [{"c": 2}]}]],
            [{"a": [{"b": 1, "c": None}]}, {"a": [{"b": None, "c": 2}]}],
        ),
        ("jsonl", [[{"a": 1}], [{"a": None}], [{"a": 2}]], [{"a": 1}, {"a": None}, {"a": 2}]),
        (
            "jsonl",
            [[{"a": 1, "b": 1}], [{"a": 2}], [{"a": 3, "b": 3}]],
            [{"a": 1, "b": 1}, {"a": 2, "b": None}, {"a": 3, "b": 3}],
        ),
    ],
)
def test_what_goes_together_is_read_right(workspace, format_, files, expected, is_reversed):
    files, expected = (files[::-1], expected[::-1]) if is_reversed else (files, expected)
    options = {"header": "true"} if format_ == "csv" else {}
    rows = outcome(workspace, format_, files, **options).to_pylist()
    assert [sorted_names(row) for row in rows] == [sorted_names(row) for row in expected]


def sorted_names(value):
    if isinstance(value, dict):
        return {name: sorted_names(value[name]) for name in sorted(value)}
    return [sorted_names(one) for one in value] if isinstance(value, list) else value


@pytest.mark.parametrize("is_reversed", [False, True])
@pytest.mark.parametrize("format_", ["jsonl", "parquet", "csv"])
def test_the_letter_case_of_a_name_does_not_count(workspace, format_, is_reversed):
    files = [[{"a": "1"}], [{"A": "2"}]]
    files = files[::-1] if is_reversed else files
    options = {"header": "true"} if format_ == "csv" else {}
    table = outcome(workspace, format_, files, **options)
    assert [name.lower() for name in table.schema.names] == ["a"]
    assert sorted(table.column(0).to_pylist()) == ["1", "2"]


@pytest.mark.parametrize("is_reversed", [False, True])
@pytest.mark.parametrize(
    ("format_", "files", "types"),
    [
        ("jsonl", [[{"a": 1}], [{"a": "x"}]], ("int64", "string")),
        ("parquet", [[{"a": 1}], [{"a": "x"}]], ("int64", "string")),
        ("jsonl", [[{"a": 1}], [{"a": {"b": 1}}]], ("int64", "struct")),
        ("jsonl", [[{"a": [1]}], [{"a": 1}]], ("list", "int64")),
        ("jsonl", [[{"a": True}], [{"a": 1}]], ("bool", "int64")),
        ("jsonl", [[{"m": {"a": 1}}], [{"m": {"a": "x"}}]], ("int64", "string")),
    ],
)
def test_what_does_not_go_together_names_file_column_and_both_types(workspace, format_, files, types, is_reversed):
    files = files[::-1] if is_reversed else files
    with pytest.raises(EngineError) as raised:
        outcome(workspace, format_, files)
    message = str(raised.value)
    assert f"1.{format_}" in message
    assert "'a'" in message or "'m.a'" in message
    assert all(each in message for each in types)


@pytest.mark.parametrize("format_", ["jsonl", "parquet"])
def test_with_a_declared_type_numbers_become_text(workspace, format_):
    for number, rows in enumerate([[{"a": 1}], [{"a": "x"}]]):
        workspace.write(f"{number}.{format_}", WRITERS[format_](rows, None))
    scan = FileScan.from_options(workspace.scan(".").to_options())
    from engine.schema import TupleSchema

    schema = TupleSchema([pa.field("a", pa.string())])
    batches = [batch for files in scan.parts() for batch in scan.batches(files, schema, is_declared=True)]
    assert [row for batch in batches for row in batch.column(0).to_pylist()] == ["1", "x"]
