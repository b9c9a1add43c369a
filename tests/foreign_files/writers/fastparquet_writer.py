"""Files that fastparquet writes. The argument is their directory."""

import sys
from pathlib import Path

import edge_values as edges
import fastparquet
import numpy as np
import pandas as pd


def primitives():
    columns = {
        "number": pd.Series(range(edges.ROWS), dtype="int32"),
        "boolean": pd.Series(edges.BOOLEANS, dtype="boolean"),
        "plain_boolean": pd.Series([bool(one) for one in edges.BOOLEANS]),
        "float": pd.Series(edges.FLOATS, dtype="float32"),
        "double": pd.Series(edges.DOUBLES, dtype="float64"),
        "text": pd.Series(edges.STRINGS, dtype=object),
        "binary": pd.Series(edges.BINARIES, dtype=object),
        "categories": pd.Series(edges.ENUMS, dtype="category"),
        "json": pd.Series([{"a": [1, "ä"]}, [], None, {}, [None], None, {"b": 1.5}, {}], dtype=object),
    }
    for bits in (8, 16, 32, 64):
        for letter in ("Int", "UInt"):
            values = edges.integers(bits, is_signed=letter == "Int")
            columns[f"{letter.lower()}{bits}"] = pd.Series(values, dtype=f"{letter}{bits}")
            columns[f"plain_{letter.lower()}{bits}"] = pd.Series(
                [one or 0 for one in values], dtype=f"{letter.lower()}{bits}"
            )
    return pd.DataFrame(columns)


def times():
    years = list(edges.NANOSECOND_TIMESTAMPS)
    return pd.DataFrame(
        {
            "timestamp": pd.Series(pd.to_datetime(years)),
            "timestamp_us": pd.Series(np.array(edges.MICROSECOND_TIMESTAMPS, "datetime64[us]")),
            "timestamp_ms": pd.Series(np.array(edges.MICROSECOND_TIMESTAMPS, "datetime64[ms]")),
            "timestamp_utc": pd.Series(pd.to_datetime(years)).dt.tz_localize("UTC"),
            "timestamp_zone": pd.Series(pd.to_datetime(years)).dt.tz_localize("UTC").dt.tz_convert("America/New_York"),
            "duration": pd.Series(pd.to_timedelta(edges.DURATIONS)),
        }
    )


def main(directory):
    def write(kind, frame, encoding="infer", **options):
        target = directory / f"fastparquet-{fastparquet.__version__}-{kind}.parquet"
        fastparquet.write(str(target), frame, object_encoding=encoding, **options)

    encodings = {"text": "utf8", "binary": "bytes", "json": "json"}
    write("primitives", primitives(), encodings)
    write(
        "without_nulls",
        primitives().drop(columns=["json"]).dropna(),
        {"text": "utf8", "binary": "bytes"},
        has_nulls=False,
    )
    write("times", times())
    write("int96", times().drop(columns=["duration"]), times="int96")
    decimals = pd.DataFrame({"decimal": pd.Series(edges.decimals(9, 2), dtype=object)})
    write("decimals", decimals, {"decimal": "decimal"})
    fixed = pd.DataFrame({"fixed": pd.Series([one or b"none" for one in edges.FIXED_BINARIES], dtype=object)})
    write("fixed", fixed, {"fixed": "bytes"}, fixed_text={"fixed": 4}, has_nulls=False)
    names = ["UPPER", "with space", "with.dot", "ünïcödé", "with`tick", "a,b;c{d}(e)=f", "2", "select"]
    write("names", pd.DataFrame({name: range(edges.ROWS) for name in names}))
    write("without_rows", primitives().head(0), encodings)
    write("index", primitives()[["number", "text"]].set_index("text"), write_index=True)
    many = pd.DataFrame({"n": range(3000), "text": [f"text {n % 50}" for n in range(3000)]})
    write("row_groups", many, row_group_offsets=1000, compression="GZIP")
    for codec in ("UNCOMPRESSED", "GZIP", "BROTLI", "LZ4_RAW", "ZSTD", "SNAPPY"):
        write(codec.lower(), primitives()[["number", "text"]], {"text": "utf8"}, compression=codec)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
