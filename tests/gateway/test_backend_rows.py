"""Rows that a hostile backend sends."""

import random

import pyarrow as pa
import pytest

from gateway.backends.backend_rows import BackendRowsError, RowReader, decode_rows, is_bytes, is_integers, is_text

COLUMNS = {"files": is_integers, "schema": is_bytes, "error": is_text}
ROWS = [{"files": [1, 2], "schema": b"\x00\x01", "error": None}, {"files": [], "schema": None, "error": "ä"}]
SCHEMA = pa.schema([("files", pa.list_(pa.int32())), ("schema", pa.binary()), ("error", pa.string())])


def encode(*batches: pa.RecordBatch, **options: object) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batches[0].schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        for batch in batches:
            writer.write_batch(batch)
    encoded: bytes = sink.getvalue().to_pybytes()
    return encoded


def decode(data: bytes) -> object:
    return decode_rows(data, COLUMNS, max_rows=10, max_values=10)


@pytest.mark.parametrize(
    "schema",
    [
        SCHEMA,
        pa.schema([("files", pa.large_list(pa.int64())), ("schema", pa.large_binary()), ("error", pa.large_string())]),
    ],
)
def test_rows_are_decoded(schema: pa.Schema) -> None:
    batch = pa.RecordBatch.from_pylist(ROWS, schema)
    assert decode(encode(batch, batch)) == ROWS + ROWS
    assert decode(encode(batch.slice(0, 0))) == []


def with_text_offsets(*offsets: int) -> pa.RecordBatch:
    """Return a batch whose texts have any offsets."""
    buffers = [
        None,
        pa.py_buffer(b"".join(offset.to_bytes(4, "little", signed=True) for offset in offsets)),
        pa.py_buffer(b"abc"),
    ]
    count = len(offsets) - 1
    text = pa.Array.from_buffers(pa.string(), count, buffers)
    return pa.RecordBatch.from_arrays([text], names=["error"])


@pytest.mark.parametrize("offsets", [(0, 2_000_000_000, 3), (0, -5, 3), (0, 1_000, 3), (2, 1, 3)])
def test_false_offsets_are_refused(offsets: tuple[int, ...]) -> None:
    with pytest.raises(BackendRowsError, match="cannot be decoded"):
        decode_rows(encode(with_text_offsets(*offsets)), {"error": is_text}, max_rows=10)


def test_false_offsets_of_lists_are_refused() -> None:
    offsets = pa.py_buffer(b"".join(offset.to_bytes(4, "little") for offset in (0, 2_000_000_000, 1)))
    values = pa.Array.from_buffers(pa.list_(pa.int32()), 2, [None, offsets], children=[pa.array([1], pa.int32())])
    with pytest.raises(BackendRowsError, match="cannot be decoded"):
        decode_rows(
            encode(pa.RecordBatch.from_arrays([values], names=["files"])),
            {"files": is_integers},
            max_rows=10,
            max_values=10,
        )


def test_text_that_is_not_utf_8_is_refused() -> None:
    text = pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(b"\0\0\0\0\1\0\0\0"), pa.py_buffer(b"\xff")])
    with pytest.raises(BackendRowsError, match="cannot be decoded"):
        decode_rows(encode(pa.RecordBatch.from_arrays([text], names=["error"])), {"error": is_text}, max_rows=10)


@pytest.mark.parametrize(
    "schema",
    [
        pa.schema([("error", pa.string())]),
        pa.schema(list(reversed(list(SCHEMA)))),
        pa.schema([*SCHEMA, ("more", pa.int8())]),
        SCHEMA.set(2, pa.field("error", pa.dictionary(pa.int32(), pa.string()))),
        SCHEMA.set(0, pa.field("files", pa.list_(pa.string()))),
    ],
)
def test_other_columns_are_refused(schema: pa.Schema) -> None:
    batch = pa.RecordBatch.from_pylist([], schema)
    with pytest.raises(BackendRowsError, match=r"sent the columns .* Expected: \[files, schema, error\]"):
        decode(encode(batch))


@pytest.mark.parametrize("compression", ["zstd", "lz4"])
def test_compressed_rows_are_refused(compression: str) -> None:
    batch = pa.RecordBatch.from_pylist([{**ROWS[0], "error": "a" * 1_000_000}], SCHEMA)
    with pytest.raises(BackendRowsError, match="compressed"):
        decode(encode(batch, compression=compression))


def test_too_many_empty_batches_are_refused() -> None:
    empty = pa.RecordBatch.from_pylist([], SCHEMA)
    assert decode(encode(*[empty] * 20)) == []
    with pytest.raises(BackendRowsError, match="batches"):
        decode(encode(*[empty] * 100))


def test_limits_hold_for_all_messages_together() -> None:
    data = encode(pa.RecordBatch.from_pylist(ROWS, SCHEMA))
    reader = RowReader(COLUMNS, max_rows=5, max_bytes=10 * len(data), max_values=10)
    assert reader.read(data) + reader.read(data) == ROWS + ROWS
    with pytest.raises(BackendRowsError, match="more than 1 rows"):
        reader.read(data)
    reader = RowReader(COLUMNS, max_rows=100, max_bytes=2 * len(data), max_values=10)
    reader.read(data)
    reader.read(data)
    with pytest.raises(BackendRowsError, match="At most 0"):
        reader.read(data)


def test_too_many_rows_or_bytes_are_refused() -> None:
    data = encode(*[pa.RecordBatch.from_pylist(ROWS, SCHEMA)] * 6)
    with pytest.raises(BackendRowsError, match="more than 10 rows"):
        decode(data)
    with pytest.raises(BackendRowsError, match=r"sent \d+ bytes of rows. At most 100 were expected"):
        decode_rows(data, COLUMNS, max_rows=100, max_bytes=100)


def test_too_many_values_in_lists_are_refused() -> None:
    batch = pa.RecordBatch.from_pylist([{**ROWS[0], "files": list(range(11))}], SCHEMA)
    with pytest.raises(BackendRowsError, match="lists with more than 10 values"):
        decode(encode(batch))


@pytest.mark.parametrize("seed", range(20))
def test_damaged_bytes_are_rows_or_an_error(seed: int) -> None:
    chosen = random.Random(seed)  # noqa: S311 - a repeatable choice
    original = encode(*[pa.RecordBatch.from_pylist(ROWS, SCHEMA)] * 3)
    for _ in range(200):
        damaged = bytearray(original)
        for _ in range(chosen.choice([1, 1, 2, 8])):
            damaged[chosen.randrange(len(damaged))] = chosen.choice([0, 1, 127, 255, chosen.randrange(256)])
        try:
            decode(bytes(damaged[: chosen.choice([len(damaged), chosen.randrange(len(damaged))])]))
        except BackendRowsError:
            continue
