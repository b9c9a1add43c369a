"""Files that Polars writes, as Parquet and Arrow IPC. The argument is their directory."""

import sys
from datetime import timedelta
from pathlib import Path

import edge_values as edges
import polars as pl


def primitives():
    columns = {
        "number": pl.Series(range(edges.ROWS), dtype=pl.Int32),
        "boolean": pl.Series(edges.BOOLEANS),
        "float": pl.Series(edges.FLOATS, dtype=pl.Float32),
        "double": pl.Series(edges.DOUBLES, dtype=pl.Float64),
        "text": pl.Series(edges.STRINGS),
        "binary": pl.Series(edges.BINARIES, dtype=pl.Binary),
        "categories": pl.Series(edges.ENUMS, dtype=pl.Categorical),
        "enum": pl.Series(edges.ENUMS, dtype=pl.Enum(["one", "two", "three"])),
        "int8": pl.Series(edges.integers(8), dtype=pl.Int8),
        "int16": pl.Series(edges.integers(16), dtype=pl.Int16),
        "int32": pl.Series(edges.integers(32), dtype=pl.Int32),
        "int64": pl.Series(edges.integers(64), dtype=pl.Int64),
        "uint8": pl.Series(edges.integers(8, is_signed=False), dtype=pl.UInt8),
        "uint16": pl.Series(edges.integers(16, is_signed=False), dtype=pl.UInt16),
        "uint32": pl.Series(edges.integers(32, is_signed=False), dtype=pl.UInt32),
        "uint64": pl.Series(edges.integers(64, is_signed=False), dtype=pl.UInt64),
    }
    return pl.DataFrame(columns)


def others():
    return pl.DataFrame(
        {
            "nothing": pl.Series([None] * edges.ROWS, dtype=pl.Null),
            "half": pl.Series(edges.HALVES, dtype=pl.Float16),
        }
    )


def durations():
    return pl.DataFrame(
        {
            "duration": pl.Series(edges.DURATIONS, dtype=pl.Duration("us")),
            "duration_ms": pl.Series([one and timedelta(one.days) for one in edges.DURATIONS], dtype=pl.Duration("ms")),
        }
    )


def large_integers():
    return pl.DataFrame(
        {
            "int128": pl.Series(edges.integers(64), dtype=pl.Int128),
            "uint128": pl.Series(edges.integers(64, is_signed=False), dtype=pl.UInt128),
        }
    )


def decimals():
    sizes = ((1, 0), (4, 4), (9, 2), (10, 0), (18, 18), (19, 5), (38, 0), (38, 38))
    return pl.DataFrame({f"decimal_{p}_{s}": pl.Series(edges.decimals(p, s), dtype=pl.Decimal(p, s)) for p, s in sizes})


def times():
    columns = {"date": pl.Series(edges.DATES), "time": pl.Series(edges.MICROSECOND_TIMES)}
    for zone in (None, "UTC", "America/New_York"):
        for unit, values in (
            ("ms", edges.in_milliseconds(edges.MICROSECOND_TIMESTAMPS)),
            ("us", edges.MICROSECOND_TIMESTAMPS),
            ("ns", edges.NANOSECOND_TIMESTAMPS),
        ):
            utc = pl.Series(values, dtype=pl.Datetime(unit))
            name = f"timestamp_{unit}{'_' + zone if zone else ''}"
            columns[name] = utc.dt.replace_time_zone("UTC").dt.convert_time_zone(zone) if zone else utc
    return pl.DataFrame(columns)


def nested():
    structs = pl.Struct({"a": pl.Int32, "b": pl.String})
    pairs = [[1, 2], [None, 3], None, [0, 0], [2**31 - 1, -1], [None, None], [1, 1], None]
    return pl.DataFrame(
        {
            "list": pl.Series(edges.LISTS, dtype=pl.List(pl.Int32)),
            "texts": pl.Series(edges.STRING_LISTS, dtype=pl.List(pl.String)),
            "nested": pl.Series(edges.NESTED_LISTS, dtype=pl.List(pl.List(pl.Int32))),
            "struct": pl.Series(edges.STRUCTS, dtype=structs),
            "structs": pl.Series(edges.STRUCT_LISTS, dtype=pl.List(structs)),
            "pairs": pl.Series(pairs, dtype=pl.Array(pl.Int32, 2)),
            "times": pl.Series([[one] for one in edges.MICROSECOND_TIMESTAMPS], dtype=pl.List(pl.Datetime("us"))),
            "categories": pl.Series([["one", None]] * edges.ROWS, dtype=pl.List(pl.Categorical)),
        }
    )


def names():
    texts = ["UPPER", "with space", "with.dot", "ünïcödé", "with`tick", "a,b;c{d}(e)=f", "2", "select"]
    structs = pl.Series([{"In.ner": 1, "IN ner": "x"}] * edges.ROWS)
    return pl.DataFrame({**{text: pl.Series(range(edges.ROWS)) for text in texts}, "Struct": structs})


def main(directory):
    def name(kind):
        return directory / f"polars-{pl.__version__}-{kind}"

    for kind, frame in (
        ("primitives", primitives()),
        ("decimals", decimals()),
        ("times", times()),
        ("nested", nested()),
        ("names", names()),
        ("without_rows", primitives().clear()),
    ):
        frame.write_parquet(name(f"{kind}.parquet"))
        frame.write_ipc(name(f"{kind}.arrow"), compression="zstd")
    for column in others():
        column.to_frame().write_parquet(name(f"{column.name}.parquet"))
    durations().write_parquet(name("durations.parquet"))
    large_integers().write_parquet(name("large_integers.parquet"))
    for codec in ("uncompressed", "snappy", "gzip", "brotli", "lz4"):
        primitives().select("number", "text", "boolean").write_parquet(name(f"{codec}.parquet"), compression=codec)
    many = pl.DataFrame({"n": range(3000), "text": [f"text {n % 50}" for n in range(3000)]})
    many.write_parquet(name("row_groups.parquet"), row_group_size=1000, data_page_size=2048)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
