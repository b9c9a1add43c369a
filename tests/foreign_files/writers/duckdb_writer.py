"""Files that DuckDB writes. The argument is their directory."""

import sys
from pathlib import Path
from uuid import UUID

import duckdb

NUMBERS = "(values (1), (2), (3), (4), (5), (6), (7), (8)) numbers (n)"


def column(name, type_, *values):
    """Return a column whose first rows have the given values. The other rows are null."""
    cases = " ".join(f"when {n} then '{value}'::{type_}" for n, value in enumerate(values, 1))
    return f"case n {cases} end {name}"


PRIMITIVES = ", ".join(
    [
        "n",
        column("boolean", "boolean", "true", "false"),
        column("tinyint", "tinyint", -128, 127, 0),
        column("smallint", "smallint", -32768, 32767, 0),
        column("integer", "integer", -(2**31), 2**31 - 1, 0),
        column("bigint", "bigint", -(2**63), 2**63 - 1, 0),
        column("utinyint", "utinyint", 255, 128, 0),
        column("usmallint", "usmallint", 65535, 32768, 0),
        column("uinteger", "uinteger", 2**32 - 1, 2**31, 0),
        column("ubigint", "ubigint", 2**64 - 1, 2**63, 0),
        column("float", "float", "-0.0", "nan", "inf", "1.1754944e-38", "-3.4028235e38", 0),
        column("double", "double", "-0.0", "nan", "-inf", "5e-324", "1.7976931348623157e308", 0),
        column("text", "text", "", " ", "Grüße 漢字 😀", "\n", "x" * 70),
        column("blob", "blob", "", "\\x00", "\\xFF\\xFE"),
        column("json", "json", "{}", '{"a": [1, "ä"]}', "null"),
        column("enum", "enum('one', 'two')", "one", "two"),
        column("bit", "bit", "101", "0"),
    ]
)
DAYS = ("0001-01-01", "1582-10-04", "1582-10-15", "9999-12-31", "1969-12-31")
LAST = "9999-12-31 23:59:59.999999"
TIMES = ", ".join(
    [
        "n",
        column("date", "date", *DAYS),
        column(
            "timestamp", "timestamp", "0001-01-01", "1582-10-14 23:59:59.999999", "1969-12-31 23:59:59.999999", LAST
        ),
        column("timestamptz", "timestamptz", "0001-01-01 00:00:00Z", "1582-10-14 23:59:59.999999Z", f"{LAST}Z"),
        column("timestamp_s", "timestamp_s", "0001-01-01", "2024-03-10 02:30:00"),
        column("timestamp_ms", "timestamp_ms", "0001-01-01", "2024-03-10 02:30:00.123"),
        column("timestamp_ns", "timestamp_ns", "1677-09-22", "2024-03-10 02:30:00.123456"),
        column("timestamp_of_nanoseconds", "timestamp_ns", "2024-03-10 02:30:00.123456789"),
        column("time", "time", "00:00:00", "23:59:59.999999"),
        column("timetz", "timetz", "00:00:00+01", "23:59:59.999999"),
    ]
)
OTHERS = ", ".join(
    [
        "n",
        column("uuid", "uuid", UUID(int=0), UUID(int=2**128 - 1), "00112233-4455-6677-8899-aabbccddeeff"),
        column("hugeint", "hugeint", -(2**127), 1),
        column("uhugeint", "uhugeint", 2**128 - 1, 1),
    ]
)
NESTED = """
n,
case n when 1 then [] when 2 then [null] when 3 then [1, null, -1] end::integer[] list,
case n when 1 then [[]] when 2 then [null] when 3 then [[1], null] end::integer[][] nested,
case n when 1 then [1, 2, 3] when 2 then [null, 0, null] end::integer[3] fixed,
case n when 1 then {'a': 1, 'b': 'x'} when 2 then {'a': null, 'b': null} end::struct(a integer, b text) struct,
case n when 1 then [{'a': 1, 'b': {'c': 1.5}}, null] when 2 then [] end
    ::struct(a integer, b struct(c double))[] structs,
case n when 1 then map {'a': 1, 'ä': null} when 2 then map {} end::map(text, integer) map,
case n when 1 then map {1: ['x']} when 2 then map {2: [null]} end::map(integer, text[]) map_of_lists,
case n when 1 then union_value(number := 1) end::union(number integer, words text) one_of
"""
NAMES = """
n "UPPER", n "with space", n "with.dot", n "ünïcödé", n "with`tick", n "a,b;c{d}(e)=f", n "2", n "select",
{'Inner.dot': n, 'IN ner': n} "Struct"
"""
SIZES = ((1, 0), (1, 1), (4, 2), (9, 0), (9, 9), (10, 3), (18, 0), (18, 18), (19, 0), (38, 0), (38, 38))


def decimal(precision, scale):
    high = f"{'9' * (precision - scale) or '0'}.{'9' * scale}"
    return column(f"decimal_{precision}_{scale}", f"decimal({precision}, {scale})", high, f"-{high}", 0)


DECIMALS = ", ".join(decimal(*size) for size in SIZES)
GEOMETRIES = (
    "n, case n when 1 then 'POINT (1 2)'::geometry when 2 then 'POLYGON ((0 0, 1 0, 1 1, 0 0))'::geometry end g"
)
FILES = {
    "primitives": (PRIMITIVES, ""),
    "primitives_v2": (PRIMITIVES, "parquet_version v2, compression zstd"),
    "times": (TIMES, ""),
    "times_v2": (TIMES, "parquet_version v2, compression gzip"),
    "decimals": (DECIMALS, ""),
    "decimals_v2": (DECIMALS, "parquet_version v2, compression lz4_raw"),
    "others": (OTHERS, ""),
    "nested": (NESTED, ""),
    "interval": ("n, " + column("interval", "interval", "1 month", "3 days", "4.005 seconds"), ""),
    "nothing": ("n, null nothing", ""),
    "names": (NAMES, ""),
    "brotli": ("n, n::text text", "compression brotli"),
    "uncompressed": ("n, n::text text", "compression uncompressed"),
    "field_ids": ("n, n::text text", "field_ids {n: 1, text: 7}"),
    "variants": ("n, case n when 1 then 1::variant when 2 then 'x'::variant end variant", ""),
    "shredded_variants": ("n, {'a': n, 'b': 'x' || n}::variant variant", "shredding {variant: 'struct(a integer)'}"),
    "geometries": (GEOMETRIES, ""),
}


def main(directory):
    name = f"duckdb-{duckdb.__version__}"
    connection = duckdb.connect()
    connection.execute("set TimeZone = 'UTC'")

    def write(kind, query, options):
        target = directory / f"{name}-{kind}.parquet"
        connection.execute(f"copy ({query}) to '{target}' (format parquet{options and ', ' + options})")

    for kind, (columns, options) in FILES.items():
        write(kind, f"select {columns} from {NUMBERS}", options)
    write("without_rows", f"select {PRIMITIVES} from {NUMBERS} where n < 0", "")
    write("row_groups", "select range n, 'text ' || (range % 50) text from range(4100)", "row_group_size 2048")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
