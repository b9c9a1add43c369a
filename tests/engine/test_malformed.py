"""Malformed files: each one is an error that names it, or is treated as a policy says."""

import gzip
import io
import json
import os
from contextlib import suppress
from functools import cache, partial

import pyarrow as pa
import pytest
from pyarrow import feather, orc, parquet

from engine.errors import (
    EngineError,
    FileChangedError,
    NoReaderError,
    PathNotFoundError,
    ScanOptionError,
    UnreadableFileError,
    ValueConversionError,
)
from engine.file_scan.file_scan import FileScan
from engine.file_scan.partition_reading import read_partition
from engine.file_scan.partitions import plan_partitions
from engine.file_scan.schema_discovery import discover_schema
from engine.readers.reader_errors import FormatError, RowTooLongError
from engine.schema import TupleSchema
from tests.engine.file_bytes import compressed, write_stream, written

TABLE = pa.table({"a": [1, 2, 3], "s": ["x", "y", None]})
CSV = b"a,s\n1,x\n2,y\n3,\n"
JSON = b'{"a":1,"s":"x"}\n{"a":2,"s":"y"}\n{"a":3}\n'


BINARY = {
    "a.parquet": written(parquet.write_table, TABLE),
    "a.orc": written(orc.write_table, TABLE),
    "a.feather": written(feather.write_feather, TABLE),
    "a.arrow": written(write_stream, TABLE),
}
COMPRESSED = {
    "a.csv.gz": gzip.compress(CSV, mtime=0),
    "a.csv.bz2": compressed("bz2", CSV),
    "a.csv.zst": compressed("zstd", CSV),
    "a.jsonl.lz4": compressed("lz4", JSON),
}
TEXT = {"a.csv": CSV, "a.tsv": CSV, "a.jsonl": JSON, "a.json": b"[" + JSON.replace(b"\n", b",")[:-1] + b"]"}


def refused(workspace, path, **options):
    """Return the error of a scan, which must be an engine error that names the file."""
    with pytest.raises(EngineError) as raised:
        workspace.rows(path, **options)
    message = str(raised.value)
    assert message.startswith(f"{path!r} in workspace 'dfs'")
    assert "\n" not in message
    return raised.value


# Empty files and zero bytes


@pytest.mark.parametrize("path", [*TEXT, *COMPRESSED, "a.ndjson", "a.psv", "a.tbl"])
@pytest.mark.parametrize("header", [False, True])
def test_empty_text_file_has_no_rows(workspace, path, header):
    workspace.write(path, b"")
    assert workspace.rows(path, **({"header": "true"} if header and "json" not in path else {})) == []


@pytest.mark.parametrize("path", BINARY)
def test_empty_binary_file_is_rejected(workspace, path):
    workspace.write(path, b"")
    assert isinstance(refused(workspace, path), FormatError)


@pytest.mark.parametrize("path", [*TEXT, *BINARY, *COMPRESSED])
@pytest.mark.parametrize("header", ["false", "true"])
def test_file_of_zero_bytes_is_rejected(workspace, path, header):
    workspace.write(path, bytes(5000))
    error = refused(workspace, path, **({"header": header} if ".csv" in path else {}))
    assert isinstance(error, FormatError)
    assert error.position == ("" if path in BINARY or path in COMPRESSED else "line 1")


@pytest.mark.parametrize("header", ["false", "true"])
def test_zero_bytes_in_text_are_rejected_with_their_line(workspace, header):
    workspace.write("a.csv", CSV + bytes(100) + b"\n" + CSV)
    assert refused(workspace, "a.csv", header=header).position == "line 5"


# Truncated and corrupt


@pytest.mark.parametrize("path", [*BINARY, *COMPRESSED])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_truncated_file_is_rejected(workspace, path, share):
    data = (BINARY | COMPRESSED)[path]
    workspace.write(path, data[: int(len(data) * share)])
    assert isinstance(refused(workspace, path), FormatError)


@pytest.mark.parametrize(
    ("path", "data", "position"),
    [
        ("a.csv", b'a,s\n1,"x', "line 2"),
        ("a.jsonl", JSON[:-4], "line 3"),
        ("a.json", b'[{"a":1},{"a":', "object 2"),
        ("a.json", b'{"a":\n1}\n{"a":', "object 2"),
    ],
)
def test_truncated_text_is_rejected_with_its_position(workspace, path, data, position):
    workspace.write(path, data)
    assert refused(workspace, path).position == position


def test_truncated_last_row_has_too_few_fields(workspace):
    workspace.write("a.csv", b"a,s\n1,x\n2")
    assert refused(workspace, "a.csv", header="true").position == "line 3"


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_corrupt_page_is_rejected_with_its_row_group(workspace, compression):
    table = pa.table({"a": list(range(2000))})
    data = written(
        parquet.write_table,
        table,
        row_group_size=1000,
        use_dictionary=False,
        compression=compression,
        write_page_checksum=True,
    )
    offset = parquet.read_metadata(io.BytesIO(data)).row_group(1).column(0).data_page_offset
    workspace.write("a.parquet", data[:offset] + b"\xff" * 200 + data[offset + 200 :])
    assert refused(workspace, "a.parquet").position == "row group 2"


@pytest.mark.parametrize("lost", [["a"], ["a", "b"]])
def test_page_of_unknown_kind_does_not_remove_rows(workspace, lost):
    """Arrow skips such a page, and returns fewer rows without an error."""
    table = pa.table({"a": list(range(2000)), "b": list(range(2000))})
    data = bytearray(written(parquet.write_table, table, row_group_size=1000, use_dictionary=False))
    group = parquet.read_metadata(io.BytesIO(data)).row_group(1)
    for number in range(len(lost)):
        offset = group.column(number).data_page_offset
        assert data[offset : offset + 2] == b"\x15\x00"
        data[offset + 1] = 0x0F
    workspace.write("a.parquet", bytes(data))
    assert refused(workspace, "a.parquet").position == "row group 2"


def test_corrupt_footer_is_rejected(workspace):
    data = BINARY["a.parquet"]
    length = int.from_bytes(data[-8:-4], "little")
    for damaged in (
        data[: -8 - length] + b"\xff" * length + data[-8:],
        data[:-8] + b"\xff\xff\xff\x7f" + data[-4:],
        data[:-4] + b"PARX",
    ):
        workspace.write("a.parquet", damaged)
        assert isinstance(refused(workspace, "a.parquet"), FormatError)


def test_corrupt_footer_does_not_terminate_the_process(workspace):
    """pyarrow terminates the process if it is asked for the compression of a column in some of these files."""
    data = BINARY["a.parquet"]
    start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    for position in range(start, min(start + 400, len(data) - 8)):
        for changed in (b"\x00", b"\xff", bytes([data[position] ^ 1])):
            workspace.write("a.parquet", data[:position] + changed + data[position + 1 :])
            with suppress(EngineError):
                discover_schema(FileScan.from_options(workspace.scan("a.parquet").to_options()))


@pytest.mark.parametrize("path", COMPRESSED)
def test_corrupt_compressed_file_is_rejected(workspace, path):
    data = COMPRESSED[path]
    middle = len(data) // 2
    workspace.write(path, data[:middle] + bytes(255 - byte for byte in data[middle:]))
    assert isinstance(refused(workspace, path), FormatError)


def test_text_compressed_twice_is_rejected(workspace):
    workspace.write("a.csv.gz", gzip.compress(gzip.compress(CSV, mtime=0), mtime=0))
    assert refused(workspace, "a.csv.gz").position == "line 1"


# Other encodings and wrong suffixes


@pytest.mark.parametrize("path", ["a.csv", "a.jsonl", "a.json"])
@pytest.mark.parametrize("encoding", ["latin-1", "utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_text_in_another_encoding_is_rejected_with_its_line(workspace, path, encoding):
    text = TEXT[path].decode().replace("y", "é")
    workspace.write(path, text.encode(encoding))
    last = "line 3" if encoding == "latin-1" and path == "a.csv" else ("line 2" if path == "a.jsonl" else "line 1")
    expected = last if encoding == "latin-1" else "line 1"
    assert refused(workspace, path).position in (expected, "object 1", "object 2")


def test_encoding_option_is_applied_and_checked(workspace):
    workspace.write("a.csv", "é,b\n".encode("latin-1"))
    assert workspace.rows("a.csv", encoding="latin-1") == [{"columns": ["é", "b"]}]
    assert "not utf-16" in str(refused(workspace, "a.csv", encoding="utf-16"))


@pytest.mark.parametrize(
    ("path", "data"),
    [
        *[(f"x{suffix}", BINARY[path]) for path in BINARY for suffix in (".csv", ".tsv", ".jsonl", ".json")],
        *[(path, CSV) for path in BINARY],
        *[(path, JSON) for path in BINARY],
        *[(path, BINARY[other]) for path in BINARY for other in ("a.parquet", "a.orc") if path != other],
        ("x.csv", gzip.compress(CSV, mtime=0)),
        ("x.jsonl", compressed("zstd", JSON)),
        ("x.csv.gz", CSV),
        ("x.csv.zst", gzip.compress(CSV, mtime=0)),
        ("x.jsonl.lz4", JSON),
        ("x.jsonl", CSV),
        ("x.parquet.gz", gzip.compress(BINARY["a.parquet"], mtime=0)),
    ],
)
def test_file_with_a_wrong_suffix_is_rejected(workspace, path, data):
    workspace.write(path, data)
    assert isinstance(refused(workspace, path), FormatError)


@pytest.mark.parametrize("path", ["x", "x.gz", "x.txt", "x.CSV.old"])
def test_unknown_suffix_has_no_reader(workspace, path):
    workspace.write(path, gzip.compress(CSV, mtime=0))
    assert isinstance(refused(workspace, path), NoReaderError)


def test_format_option_reads_a_file_without_suffix(workspace):
    workspace.write("x", gzip.compress(CSV, mtime=0))
    workspace.write("y.gz", gzip.compress(CSV, mtime=0))
    assert isinstance(refused(workspace, "x", format="text"), FormatError)
    assert len(workspace.rows("y.gz", format="text")) == 4


# Wide rows, deep values and long lines


@pytest.mark.slow
@pytest.mark.parametrize(
    ("columns", "format_"),
    [(1000, "feather"), *((3000, name) for name in ("csv", "jsonl", "parquet"))],
)
def test_many_columns_are_read(workspace, columns, format_):
    row = {f"c{number}": number for number in range(columns)}
    table = pa.table({name: [value] for name, value in row.items()})
    content = {
        "csv": lambda: (",".join(row) + "\n" + ",".join(map(str, row.values()))).encode(),
        "jsonl": lambda: json.dumps(row).encode(),
        "parquet": partial(written, parquet.write_table, table),
        "feather": partial(written, feather.write_feather, table),
    }[format_]()
    workspace.write(f"a.{format_}", content)
    (found,) = workspace.rows(f"a.{format_}", **({"header": "true"} if format_ == "csv" else {}))
    assert {name: int(value) for name, value in found.items()} == row


@pytest.mark.parametrize("begin", ["[", '{"a":'])
@pytest.mark.parametrize("is_closed", [True, False])
@pytest.mark.parametrize("around", [b'{"a":%b}\n', b'{"a":1}\n{"a":%b}\n', b"[%b]"])
def test_deeply_nested_json_is_rejected_with_its_position(workspace, begin, is_closed, around):
    value = begin * 10_000 + "1" + {"[": "]", '{"a":': "}"}[begin] * 10_000 * is_closed
    workspace.write("a.json", around % value.encode())
    error = refused(workspace, "a.json")
    assert isinstance(error, FormatError)
    assert error.position in ("line 1", "line 2", "object 1", "object 2")


LINE_BYTES = 200 << 20
MOST_BYTES_FOR_A_LINE = 160 << 20


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "begin", "problem"),
    [
        ("a.csv", b"", "line 1: it is longer than 16,777,216 bytes"),
        ("header.csv", b'a,b\n"', "line 2: it is longer than 16,777,216 bytes"),
        ("a.jsonl", b'{"a":"', "line 1: it is longer than 16,777,216 bytes"),
        ("a.json", b'{"a":\n1}\n{"a":"', "object 2: this is not JSON: Invalid control character"),
    ],
)
def test_line_of_200_mb_is_rejected_in_bounded_memory(workspace, new_scan_process, path, begin, problem):
    """Measure memory above that of a small scan. The line is a sparse range of the file, which JSON rejects at once."""
    options = {"header": "true"} if path == "header.csv" else {}
    workspace.write(f"small{path}", b"" if path.endswith("csv") else b"{}")
    base = new_scan_process.scan(workspace.scan(f"small{path}"), **options)
    assert base.error is None
    with workspace.write(path, begin).open("r+b") as file:
        file.truncate(LINE_BYTES)
    outcome = new_scan_process.scan(workspace.scan(path), **options)
    assert outcome.error is not None
    assert outcome.error[1].startswith(f"{path!r} in workspace 'dfs', ")
    assert problem in outcome.error[1]
    assert outcome.most_bytes - base.most_bytes < MOST_BYTES_FOR_A_LINE


@pytest.mark.parametrize("path", ["a.csv", "a.jsonl"])
def test_max_line_bytes_limits_a_line(workspace, path):
    line = b"x" * 2000 if path == "a.csv" else b'{"a":"' + b"x" * 2000 + b'"}'
    workspace.write(path, line)
    assert len(workspace.rows(path)) == 1
    assert isinstance(refused(workspace, path, max_line_bytes="1024"), RowTooLongError)


# Policies


def test_malformed_policy_applies_to_text(workspace):
    workspace.write("a.csv", b"a,s\n1,x\nno,y\n3\n4,z\n")
    scan = partial(_declared, workspace, "a.csv", TupleSchema([pa.field("a", pa.int64()), pa.field("s", pa.string())]))
    with pytest.raises(FormatError, match=r"^'a.csv' in workspace 'dfs', line 4: the row has 1 fields"):
        scan(header="true")
    message = r"^'a.csv' in workspace 'dfs', line 3: column 'a' must be bigint, .*'no'"
    with pytest.raises(ValueConversionError, match=message):
        scan(header="true", ragged="null")
    assert scan(header="true", malformed="skip") == [{"a": 1, "s": "x"}, {"a": 4, "s": "z"}]
    assert scan(header="true", malformed="null") == [
        {"a": 1, "s": "x"},
        {"a": None, "s": "y"},
        {"a": 3, "s": None},
        {"a": 4, "s": "z"},
    ]


def test_malformed_policy_applies_to_json(workspace):
    workspace.write("a.jsonl", b'{"a":1}\n{"a":\n[2]\n{"a":4}\n')
    assert refused(workspace, "a.jsonl").position == "line 2"
    assert workspace.rows("a.jsonl", malformed="skip", layout="lines") == [{"a": 1}, {"a": 4}]
    assert workspace.rows("a.jsonl", malformed="null", layout="lines") == [{"a": 1}, {"a": None}, {"a": None}, {"a": 4}]


@pytest.mark.parametrize("path", ["a.csv", "a.jsonl"])
def test_unknown_policy_is_rejected(workspace, path):
    workspace.write(path, b"")
    with pytest.raises(EngineError, match="Option 'malformed' of a scan cannot be 'ignore'"):
        workspace.rows(path, malformed="ignore")


def test_declared_column_of_text_without_header_is_refused_before_a_task_starts(workspace):
    workspace.write("a.csv", b"a\n1\n")
    workspace.write("b.csv", b"a\n2\n")
    scan = FileScan.from_options(workspace.scan(".").to_options(reader={}))
    with pytest.raises(ScanOptionError, match=r"no column 'columns', but 'a\.csv' is read as a text file without"):
        plan_partitions(scan, TupleSchema([pa.field("a", pa.int64())]), is_declared=True)


def _declared(workspace, path, schema, **options):
    scan = FileScan.from_options(workspace.scan(path).to_options(reader=options))
    tasks = plan_partitions(scan, schema, is_declared=True)
    batches = (batch for files in tasks for batch in read_partition(scan, files, schema, is_declared=True))
    return [row for batch in batches for row in batch.to_pylist()]


# Files that change during the scan


LARGE = ("a.csv", "a.jsonl", "a.parquet")
SMALL_ROWS = 300_000


@cache
def large(path):
    """Return a file of several splits."""
    if path == "a.csv":
        return b"1234567,x\n" * 2_000_000
    if path == "a.jsonl":
        return b'{"a":12345,"s":"x"}\n' * 1_000_000
    return integers(3_000_000, row_group_size=300_000, use_dictionary=False, compression="none")


def integers(rows, **options):
    return written(parquet.write_table, pa.table({"a": range(rows)}), **options)


def start_scan(workspace, path):
    scan = FileScan.from_options(workspace.scan(path).to_options(reader={"partition_bytes": "8MiB"}))
    schema, partitions = discover_schema(scan), plan_partitions(scan)
    return len(partitions), (
        batch for files in partitions for batch in read_partition(scan, files, schema, is_declared=False)
    )


@pytest.fixture(params=LARGE)
def started_scan(workspace, request):
    """Return the path of a file of several splits, and a scan of it after its first batch."""
    path = workspace.write(request.param, large(request.param))
    partitions, batches = start_scan(workspace, request.param)
    assert partitions > 1
    next(batches)
    return path, batches


@pytest.mark.parametrize("path", LARGE)
def test_open_file_is_read_to_its_end_after_deletion(workspace, path):
    data = large(path)[: 500_000 * 10] if path != "a.parquet" else integers(SMALL_ROWS)
    file = workspace.write(path, data)
    partitions, batches = start_scan(workspace, path)
    assert partitions == 1
    first = next(batches).num_rows
    file.unlink()
    rows = {"a.csv": 500_000, "a.jsonl": 250_000, "a.parquet": SMALL_ROWS}[path]
    assert first + sum(batch.num_rows for batch in batches) == rows


def test_file_deleted_between_its_splits_is_reported(started_scan):
    path, batches = started_scan
    path.unlink()
    with pytest.raises(PathNotFoundError, match=f"^'{path.name}' in workspace 'dfs' does not exist"):
        list(batches)


def test_file_that_grows_during_a_scan_is_rejected(started_scan):
    path, batches = started_scan
    with path.open("ab") as file:
        file.write(b"\n")
    with pytest.raises(FileChangedError, match=f"^'{path.name}' in workspace 'dfs' changed while it was scanned"):
        list(batches)


def test_file_that_shrinks_during_a_scan_is_rejected(started_scan):
    path, batches = started_scan
    os.truncate(path, path.stat().st_size // 2)
    with pytest.raises((FileChangedError, FormatError), match=f"^'{path.name}' in workspace 'dfs'"):
        list(batches)


@pytest.mark.parametrize("path", ["a.csv", "a.jsonl", "a.parquet"])
@pytest.mark.parametrize("moment", ["after discovery", "after planning"])
def test_file_deleted_before_reading_is_reported(workspace, path, moment):
    file = workspace.write(path, (TEXT | BINARY)[path])
    scan = FileScan.from_options(workspace.scan(path).to_options())
    schema = discover_schema(scan)
    if moment == "after discovery":
        file.unlink()
    with pytest.raises(PathNotFoundError, match=f"^'{path}' in workspace 'dfs' does not exist"):
        for files in plan_partitions(scan):
            file.unlink()
            list(read_partition(scan, files, schema, is_declared=False))


@pytest.mark.parametrize("path", ["a.csv", "a.jsonl", "a.parquet"])
def test_file_replaced_after_planning_is_rejected(workspace, path):
    file = workspace.write(path, (TEXT | BINARY)[path])
    other = workspace.write("other", large(path))
    scan = FileScan.from_options(workspace.scan(path).to_options())
    schema = discover_schema(scan)
    (files,) = plan_partitions(scan)
    other.rename(file)
    with pytest.raises(FileChangedError, match="Run the statement again"):
        list(read_partition(scan, files, schema, is_declared=False))


@pytest.mark.parametrize("path", ["a.jsonl", "a.parquet"])
def test_file_replaced_after_discovery_by_another_type_is_rejected(workspace, path):
    workspace.write(path, (TEXT | BINARY)[path])
    scan = FileScan.from_options(workspace.scan(path).to_options())
    schema = discover_schema(scan)
    workspace.write(
        path, b'{"a":"no number"}' if path == "a.jsonl" else written(parquet.write_table, pa.table({"a": ["no"]}))
    )
    with pytest.raises(EngineError, match=f"'{path}' in workspace 'dfs'.*column 'a' is string here, but bigint"):
        list(read_partition(scan, plan_partitions(scan)[0], schema, is_declared=False))


@pytest.mark.parametrize("path", [*TEXT, *BINARY])
def test_file_without_permission_is_reported(workspace, path, monkeypatch):
    workspace.write(path, (TEXT | BINARY)[path])
    system_open = os.open

    def refuses(name, *how, **more):
        if str(name).endswith(path):
            raise PermissionError(13, "Permission denied")
        return system_open(name, *how, **more)

    monkeypatch.setattr(os, "open", refuses)
    with pytest.raises(UnreadableFileError, match=f"'{path}' in workspace 'dfs' cannot be read: Permission denied"):
        workspace.rows(path)


def test_error_names_the_one_bad_file(workspace):
    for number in range(20):
        workspace.write(f"{number}.parquet", BINARY["a.parquet"])
    workspace.write("13.parquet", BINARY["a.parquet"][:-1])
    with pytest.raises(FormatError, match=r"^'13.parquet' in workspace 'dfs'"):
        workspace.rows(".")
