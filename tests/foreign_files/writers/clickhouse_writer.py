"""Files that ClickHouse writes, through chDB, as Parquet, ORC and Arrow IPC. The argument is their directory."""

import sys
from pathlib import Path
from uuid import UUID

import chdb


def column(name, type_, *values):
    """Return a column whose first rows have the given values. The other rows are null."""
    texts = ", ".join(f"'{value}'::Nullable(String)" for value in values)
    return f"[{texts}, null][n]::Nullable({type_}) {name}"


PRIMITIVES = ", ".join(
    [
        "n",
        column("boolean", "Bool", "true", "false"),
        column("tinyint", "Int8", -128, 127, 0),
        column("smallint", "Int16", -32768, 32767, 0),
        column("integer", "Int32", -(2**31), 2**31 - 1, 0),
        column("bigint", "Int64", -(2**63), 2**63 - 1, 0),
        column("utinyint", "UInt8", 255, 128, 0),
        column("usmallint", "UInt16", 65535, 32768, 0),
        column("uinteger", "UInt32", 2**32 - 1, 2**31, 0),
        column("ubigint", "UInt64", 2**64 - 1, 2**63, 0),
        column("float", "Float32", "-0", "nan", "inf", "1.1754944e-38", "-3.4028235e38"),
        column("double", "Float64", "-0", "nan", "-inf", "5e-324", "1.7976931348623157e308"),
        column("text", "String", "", " ", "Grüße 漢字 😀", "a\\nb", "\\0"),
        "toLowCardinality(toNullable(['', 'a', 'b', 'a'][n])) repeated",
        "toFixedString(['abc', '', 'ä'][n], 4) fixed_text",
    ]
)
ENUM = "n, CAST(1 + n % 2, 'Enum8(\\'one\\' = 1, \\'two\\' = 2)') enum"
LAST = "2299-12-31 23:59:59.999999"
TIMES = ", ".join(
    [
        "n",
        column("date", "Date", "1970-01-01", "2149-06-06"),
        column("date32", "Date32", "1900-01-01", "2299-12-31"),
        column("timestamp_s", "DateTime('UTC')", "1970-01-01 00:00:00", "2106-02-07 06:28:15"),
        column("timestamp_ms", "DateTime64(3, 'UTC')", "1900-01-01 00:00:00.001", LAST),
        column("timestamp_us", "DateTime64(6, 'UTC')", "1900-01-01 00:00:00.000001", LAST),
        column("timestamp_ns", "DateTime64(9, 'UTC')", "1900-01-01 00:00:00.000001", "2262-04-11 23:47:16.854775"),
        column("timestamp_of_nanoseconds", "DateTime64(9, 'UTC')", "2024-03-10 02:30:00.123456789"),
        column("timestamp_of_new_york", "DateTime64(6, 'America/New_York')", "2024-03-10 03:30:00.123456"),
    ]
)
OTHERS = ", ".join(
    [
        "n",
        column("uuid", "UUID", UUID(int=0), UUID(int=2**128 - 1), "00112233-4455-6677-8899-aabbccddeeff"),
        column("int128", "Int128", -(2**127), 1),
        column("uint256", "UInt256", 2**256 - 1, 1),
        column("ipv4", "IPv4", "127.0.0.1"),
        column("ipv6", "IPv6", "::1"),
    ]
)
NESTED = """
n,
[[], [1, 2], [-1]][n] list,
[[], [null, 1], [null]][n] nullable,
[[], [[]], [[1], []]][n] nested,
tuple(n, ['', 'x', 'ä'][n])::Tuple(a Int32, b String) struct,
[tuple(n, ['x'])]::Array(Tuple(a Int32, b Array(String))) structs,
map('a', n, 'ä', 2)::Map(String, Int32) map,
map(n, [n])::Map(Int32, Array(Int32)) map_of_lists
"""
NAMES = "n `UPPER`, n `with space`, n `with.dot`, n `ünïcödé`, n `a,b;c{d}(e)=f`, n `2`, n `select`"
AS_TEXT = "output_format_parquet_string_as_string = 1, output_format_parquet_fixed_string_as_fixed_byte_array = 0"
SIZES = ((1, 0), (4, 4), (9, 2), (10, 0), (18, 18), (19, 5), (38, 0), (38, 38))


def decimal(precision, scale):
    high = f"{'9' * (precision - scale) or '0'}.{'9' * scale}".rstrip(".")
    return column(f"decimal_{precision}_{scale}", f"Decimal({precision}, {scale})", high, f"-{high}", 0)


DECIMALS = ", ".join(["n", *(decimal(*size) for size in SIZES)])


KINDS = {"primitives": PRIMITIVES, "times": TIMES, "decimals": DECIMALS, "nested": NESTED, "names": NAMES}


def main(directory):
    version = chdb.query("select version()", "TabSeparatedRaw").bytes().decode().strip()

    def write(kind, columns, suffix=".parquet", options="", rows="from numbers(6)"):
        target = directory / f"clickhouse-{version}-{kind}{suffix}"
        format_ = {".parquet": "Parquet", ".orc": "ORC", ".arrow": "Arrow"}[suffix]
        source = f"select {columns} from (select toInt32(number + 1) n {rows})"
        settings = "allow_suspicious_low_cardinality_types = 1" + (options and f", {options}")
        target.unlink(missing_ok=True)
        chdb.query(f"{source} into outfile '{target}' format {format_} settings {settings}")

    for kind, columns in KINDS.items():
        write(kind, columns)
        write(kind, columns, ".orc")
    write("others", OTHERS)
    write("enum", ENUM)
    write("enum", ENUM, ".orc")
    write("primitives", PRIMITIVES, ".arrow")
    write("primitives_as_text", PRIMITIVES, options=AS_TEXT)
    write("primitives_version_1", PRIMITIVES, options="output_format_parquet_version = '1.0'")
    write("without_rows", PRIMITIVES, rows="from numbers(0)")
    write("without_rows", PRIMITIVES, ".orc", rows="from numbers(0)")
    for codec in ("none", "snappy", "lz4", "brotli", "zstd", "gzip"):
        write(codec, "n, toString(n) text", options=f"output_format_parquet_compression_method = '{codec}'")
    for codec in ("none", "snappy", "zlib", "lz4", "zstd"):
        write(codec, "n, toString(n) text", ".orc", f"output_format_orc_compression_method = '{codec}'")
    many = "n, concat('text ', toString(n % 50)) text"
    write("row_groups", many, options="output_format_parquet_row_group_size = 1000", rows="from numbers(3000)")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
