"""Random conditions keep the same rows in Spark's own reader, which pushes them down, and in the engine."""

import os
import random
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

pytestmark = pytest.mark.slow

ROWS = 400
CONDITIONS_OF_COLUMN = 2
NULLS = 0.1

COLUMNS = {
    "tiny": (pa.int8(), [-128, -1, 0, 5, 127], ["0", "-128", "128", "1.5", "'5'"]),
    "small": (pa.int16(), [-300, 0, 299], ["0", "299", "40000", "1.5D"]),
    "number": (pa.int32(), [-(2**31), 0, 5, 2**31 - 1], ["0", "2147483647", "-2147483649", "5D"]),
    "big": (pa.int64(), [-(2**63), 0, 7, 2**63 - 1], ["0", "9223372036854775807", "7.5", "9223372036854775808"]),
    "unsigned": (pa.uint32(), [0, 5, 2**31, 2**32 - 1], ["4294967295", "0", "-1", "2147483648"]),
    "real": (pa.float32(), [-0.0, 0.0, 1.0, float("nan")], ["0", "-0.0D", "double('NaN')", "1", "2"]),
    "double": (pa.float64(), [-0.0, 0.0, 1.5, float("nan")], ["0", "-0.0D", "double('NaN')", "1.5", "9"]),
    "text": (pa.string(), ["", "a", "A", "ab", "ä", "\U0001d11e", "a%", "a_b"], ["''", "'a'", "'ä'", "'\uffee'"]),
    "bytes": (pa.binary(), [b"", b"\xff", b"\x7f", b"a"], ["X''", "X'FF'", "X'61'"]),
    "day": (
        pa.date32(),
        [date(1500, 2, 1), date(1970, 1, 1)],
        ["date'1582-10-14'", "date'1970-01-01'", "'2026-03-01'"],
    ),
    "narrow": (pa.decimal128(5, 2), [Decimal("-9.99"), Decimal("1.25")], ["1.25", "1.255", "1000", "1D"]),
    "wide": (pa.decimal128(38, 3), [Decimal("0.001"), Decimal(10**9)], ["0", "0.0005", "99999999999999999999"]),
    "flag": (pa.bool_(), [True, False], ["true", "false"]),
    "instant": (
        pa.timestamp("us", "UTC"),
        [datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC), datetime(1970, 1, 1, tzinfo=UTC)],
        ["timestamp'1970-01-01 00:00:00Z'", "date'1970-01-01'", "timestamp'1969-12-31 23:59:59.9999995Z'"],
    ),
    "millis": (
        pa.timestamp("ms"),
        [datetime(1969, 12, 31), datetime(1970, 1, 1, 0, 0, 0, 1000)],
        ["timestamp_ntz'1970-01-01 00:00:00.0005'", "timestamp_ntz'1970-01-01 00:00:00.001'", "date'1970-01-01'"],
    ),
}
"""The type, the values and the literals of each column."""

READ_BY_ENGINE_IN_ORC = ("unsigned", "day", "instant", "millis")
PATTERNS = ("text like 'a%'", "text like '%b'", "text like 'a_b'", r"text like '%\\%'", "text not like 'a%'")


class Conditions:
    """Generates conditions on one column each, or on two."""

    def __init__(self, seed, columns):
        self._random = random.Random(seed)  # noqa: S311 - must be repeatable, not secret
        self._columns = columns

    def all(self):
        return [self._condition(column) for column in self._columns for _ in range(CONDITIONS_OF_COLUMN)]

    def table(self):
        values = {column: [self._value(column) for _ in range(ROWS)] for column in self._columns}
        schema = pa.schema([("i", pa.int32()), *((column, COLUMNS[column][0]) for column in self._columns)])
        return pa.table({"i": range(ROWS), **values}, schema)

    def _value(self, column):
        return None if self._random.random() < NULLS else self._random.choice(COLUMNS[column][1])

    def _condition(self, column):
        one = self._simple(column)
        if self._random.random() < 0.3:
            return f"{one} {self._random.choice(['and', 'or'])} {self._simple(self._random.choice(self._columns))}"
        return one

    def _simple(self, column):
        literals = COLUMNS[column][2]
        first, second = self._random.choice(literals), self._random.choice(literals)
        operator = self._random.choice(["=", "<", "<=", ">", ">=", "<>", "<=>"])
        choices = [f"{column} {operator} {first}"] * 4 + [
            f"{column} in ({first}, {second})",
            f"{column} not in ({first})",
            f"{column} is null",
            f"{column} is not null",
            f"not ({column} between {first} and {second})",
        ]
        return self._random.choice([*choices, *PATTERNS] if column == "text" else choices)


def write_parquet(table, folder):
    """Write two files: one with dictionaries, one with many pages."""
    pq.write_table(table, folder / "a.parquet", row_group_size=7, write_page_index=True)
    pages = {"use_dictionary": False, "data_page_size": 64, "write_page_index": True}
    pq.write_table(table, folder / "b.parquet", row_group_size=50, **pages)


def write_orc(table, folder):
    columns = list(range(1, table.num_columns))
    orc.write_table(table, folder / "a.orc", stripe_size=1024, batch_size=50, bloom_filter_columns=columns)


@pytest.mark.parametrize("write", [write_parquet, write_orc])
def test_both_readers_keep_the_same_rows(spark, lodge, tmp_path_factory, write):
    conditions = Conditions(
        write.__name__, [one for one in COLUMNS if write is not write_orc or one not in READ_BY_ENGINE_IN_ORC]
    )
    folder = lodge.files / tmp_path_factory.mktemp("predicates").name
    folder.mkdir(mode=0o755)
    write(conditions.table(), folder)
    for path in folder.iterdir():
        os.utime(path, (1_700_000_000, 1_700_000_000))
    chosen = conditions.all()

    def find_rows(options):
        places = [
            f"select {number} n, i from dfs.`{folder.name}` {options} where {condition}"
            for number, condition in enumerate(chosen)
        ]
        plan = spark.sql(f"explain {places[0]}").first()[0]
        found = spark.sql(f"select n, count(i) c, sum(i) s from ({' union all '.join(places)}) group by n")
        return {row.n: (row.c, row.s) for row in found.collect()}, plan

    (mine, plan), (engine, _) = find_rows(""), find_rows("with (spark_readers = false)")
    assert "Readers: Spark" in plan
    different = [(chosen[n], mine.get(n), engine.get(n)) for n in mine | engine if mine.get(n) != engine.get(n)]
    assert not different
