"""Files that ask for much more memory than they have bytes."""

import subprocess
import sys

import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from engine.readers.columnar import decoded_size
from engine.readers.columnar.decoded_size import bounded_parts, decoded_bytes
from engine.result_set.conversion.casts import decode
from tests.engine.file_bytes import written

MEBIBYTE = 2**20
LONG = "x" * (4 * MEBIBYTE)

words = st.lists(st.one_of(st.none(), st.text(max_size=20)), max_size=30)


def plain_bytes(array):
    return 0 if not len(array) else pc.sum(pc.binary_length(array)).as_py() or 0


@given(words, st.integers(0, 5))
def test_bound_holds_for_every_encoding_of_texts(values, start):
    plain = pa.array(values, pa.string())
    encoded = [plain.dictionary_encode(), plain.cast(pa.string_view()), pc.run_end_encode(plain)]
    for array in encoded:
        part = array.slice(start)
        assert decoded_bytes(part) >= plain_bytes(decode(part))
    assert decoded_bytes(encoded[0]) == decoded_bytes(encoded[1]) == plain_bytes(plain)


@given(st.lists(st.integers(0, 3), max_size=8))
def test_bound_holds_inside_of_nested_values(lengths):
    values = pa.array(["abc", "d"] * (sum(lengths) + 1)).dictionary_encode()
    offsets = [sum(lengths[:end]) for end in range(len(lengths) + 1)]
    lists = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values)
    struct = pa.StructArray.from_arrays([lists], ["a"])
    assert decoded_bytes(struct) == plain_bytes(decode(lists.flatten()))
    views = pa.ListViewArray.from_arrays(
        pa.array([0] * len(lengths), pa.int32()), pa.array(lengths, pa.int32()), pa.array(["abc"] * 3)
    )
    assert decoded_bytes(views) >= 3 * sum(lengths)


def test_batch_is_split_until_its_parts_are_small(monkeypatch):
    monkeypatch.setattr(decoded_size, "MAX_DECODED_BYTES", 10)
    values = ["a", "bcdefghijklmnop", "c", "d", "e" * 9, "f"]
    batch = pa.record_batch({"t": pa.array(values).dictionary_encode(), "n": range(6)})
    parts = list(bounded_parts(batch))
    assert [row for part in parts for row in part["n"].to_pylist()] == list(range(6))
    assert max(decoded_bytes(part["t"]) for part in parts if part.num_rows > 1) <= 10
    plain = pa.record_batch({"t": values})
    assert list(bounded_parts(plain)) == [plain]


def table_of_long_texts(rows):
    """Return a table that shares one long text between its rows."""
    return pa.table({"t": pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), [LONG])})


def write_arrow(table, sink):
    with pa.ipc.new_file(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(table)


def test_small_arrow_file_is_read_in_bounded_memory(workspace, new_scan_process):
    rows = 300
    data = written(write_arrow, table_of_long_texts(rows))
    assert len(data) < 10_000
    workspace.write("a.arrow", data)
    outcome = new_scan_process.scan(workspace.scan("a.arrow"))
    assert outcome.rows == rows
    assert outcome.most_bytes < 700 * MEBIBYTE, "1.2 GB were decoded at once"


def test_parquet_file_that_needs_too_much_memory_is_named(workspace, scan_process):
    data = written(parquet.write_table, table_of_long_texts(60_000), compression="zstd", store_schema=False)
    assert len(data) < 10_000
    workspace.write("a.parquet", data)
    outcome = scan_process.scan(workspace.scan("a.parquet"))
    assert outcome.error[0] == "MemoryLimitError"
    assert "'a.parquet' in workspace 'dfs', row group 1: the values need more memory" in outcome.error[1]


def test_memory_of_a_task_is_limited_and_then_as_before(tmp_path):
    program = """
import resource
from engine.memory_limit import limited_memory
before = resource.getrlimit(resource.RLIMIT_DATA)
with limited_memory(100 << 20):
    try:
        bytearray(200 << 20)
    except MemoryError:
        print("refused")
bytearray(200 << 20)
assert resource.getrlimit(resource.RLIMIT_DATA) == before
resource.setrlimit(resource.RLIMIT_DATA, (1 << 40, before[1]))
with limited_memory(1 << 50):
    print(resource.getrlimit(resource.RLIMIT_DATA)[0] == 1 << 40)
"""
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert answer.stdout.split() == ["refused", "True"]
