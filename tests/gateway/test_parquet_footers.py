"""Numbers of rows in the footers of Parquet files, compared with those that pyarrow reads."""

import io
import random
import tracemalloc
from contextlib import suppress

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gateway.stored_tables.parquet_footers import ParquetRowCounter, UnknownRowCountError

TYPES = [
    pa.int8(),
    pa.uint64(),
    pa.float16(),
    pa.string(),
    pa.binary(7),
    pa.decimal128(20, 3),
    pa.date32(),
    pa.timestamp("us", "Europe/Berlin"),
    pa.time64("ns"),
    pa.bool_(),
]


def random_type(chance: random.Random, depth: int = 0) -> pa.DataType:
    kind = chance.randrange(8) if depth < 3 else 7
    if kind == 0:
        return pa.list_(random_type(chance, depth + 1))
    if kind == 1:
        return pa.map_(pa.string(), random_type(chance, depth + 1))
    if kind == 2:
        return pa.struct([(f"é{number}", random_type(chance, depth + 1)) for number in range(1 + chance.randrange(20))])
    return chance.choice(TYPES)


def random_file(seed: int) -> tuple[bytes, int]:
    chance = random.Random(seed)  # noqa: S311 - repeatable
    schema = pa.schema([(f"c{number}", random_type(chance)) for number in range(1 + chance.randrange(40))])
    rows = chance.choice([0, 1, 127, 128, 40_000])
    table = pa.table([pa.nulls(rows, field.type) for field in schema], schema=schema)
    file = io.BytesIO()
    pq.write_table(table, file, row_group_size=1 + chance.randrange(20_000), version=chance.choice(["1.0", "2.6"]))
    return file.getvalue(), rows


def count(*contents: bytes) -> int:
    counter = ParquetRowCounter()
    return sum(counter.count(io.BytesIO(content)) for content in contents)


@pytest.mark.parametrize("seed", range(25))
def test_count_is_that_of_pyarrow(seed: int) -> None:
    content, rows = random_file(seed)
    assert pq.read_metadata(io.BytesIO(content)).num_rows == rows
    assert count(content) == rows
    assert count(content, content) == 2 * rows


def test_wide_file_is_counted() -> None:
    file = io.BytesIO()
    pq.write_table(pa.table({f"column{number}": [1, 2] for number in range(3000)}), file)
    assert count(file.getvalue()) == 2


def footer(*parts: bytes) -> bytes:
    data = b"".join(parts)
    return b"PAR1" + data + len(data).to_bytes(4, "little") + b"PAR1"


COLUMNS = bytes([0x15, 2, 0x19])  # the version, and the header of the field with the columns
FOUR_BILLION_STRUCTS = bytes([0xFC, 0xFF, 0xFF, 0xFF, 0xFF, 0x0F])


@pytest.mark.parametrize(
    "content",
    [
        b"PAR1",
        b"PAR1PAR1",
        b"PAR1" + bytes(4) + b"PARE",
        b"PAR1" + b"\xff\xff\xff\x7f" + b"PAR1",
        footer(COLUMNS, FOUR_BILLION_STRUCTS),
        footer(COLUMNS, FOUR_BILLION_STRUCTS, bytes(900_000)),
        footer(COLUMNS, b"\x1c", b"\x1c" * 100_000),
        footer(COLUMNS, bytes([0x1B, 0x01])),
        footer(bytes([0x36, 9])),  # -5 rows
        footer(bytes([0x36]), b"\xff" * 20),
        footer(bytes([0x38]), b"\xff\xff\xff\xff\x0f"),  # a text of 4 GB
    ],
)
def test_other_content_has_no_count_and_costs_little(content: bytes) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(UnknownRowCountError):
            count(content)
        assert tracemalloc.get_traced_memory()[1] < 4 * 1024 * 1024
    finally:
        tracemalloc.stop()


def test_work_of_all_files_together_is_limited() -> None:
    content, _ = random_file(3)
    with pytest.raises(UnknownRowCountError, match="too many values"):
        count(*[content] * 100_000)


def test_damaged_footers_have_a_count_or_none() -> None:
    chance = random.Random(7)  # noqa: S311 - repeatable
    for seed in range(25):
        content = bytearray(random_file(seed)[0])
        length = int.from_bytes(content[-8:-4], "little")
        for _ in range(40):
            position = len(content) - 9 - chance.randrange(length)
            before, content[position] = content[position], chance.randrange(256)
            with suppress(UnknownRowCountError):
                assert count(bytes(content)) >= 0
            content[position] = before


def test_empty_file_has_no_rows() -> None:
    """A new part of a partitioned table contains one, which Spark ignores."""
    assert ParquetRowCounter().count(io.BytesIO()) == 0
