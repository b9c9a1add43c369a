"""Files that PyArrow writes, as Parquet, ORC and Arrow IPC. The argument is their directory.

Also old versions run this program, so it tries what they may lack. Only the current version writes the files that are
about codecs and encodings.
"""

import sys
from pathlib import Path

import edge_values as edges
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq

PER_UNIT = {"s": 1_000_000, "ms": 1000, "us": 1}
VERSION = tuple(int(part) for part in pa.__version__.split(".")[:2])


def primitives():
    columns = {
        "number": pa.array(range(edges.ROWS), pa.int32()),
        "boolean": pa.array(edges.BOOLEANS),
        "float": pa.array(edges.FLOATS, pa.float32()),
        "double": pa.array(edges.DOUBLES, pa.float64()),
        "text": pa.array(edges.STRINGS, pa.string()),
        "binary": pa.array(edges.BINARIES, pa.binary()),
        "fixed_binary": pa.array(edges.FIXED_BINARIES, pa.binary(4)),
        "categories": pa.array(edges.ENUMS).dictionary_encode(),
    }
    for bits in (8, 16, 32, 64):
        columns[f"int{bits}"] = pa.array(edges.integers(bits), f"int{bits}")
        columns[f"uint{bits}"] = pa.array(edges.integers(bits, is_signed=False), f"uint{bits}")
    return pa.table(columns)


def others():
    """Return columns of types that some versions do not write."""
    columns = {
        "large_text": pa.array(edges.STRINGS, pa.large_string()),
        "large_binary": pa.array(edges.BINARIES, pa.large_binary()),
    }
    if VERSION >= (16, 0):
        columns["text_view"] = pa.array(edges.STRINGS, pa.string_view())
        columns["binary_view"] = pa.array(edges.BINARIES, pa.binary_view())
    if VERSION >= (18, 0):
        columns["uuid"] = pa.array([value and value.bytes for value in edges.UUIDS], pa.uuid())
        columns["bool8"] = pa.array(edges.BOOLEANS, pa.bool_()).cast(pa.int8()).cast(pa.bool8())
    if VERSION >= (19, 0):
        columns["json"] = pa.array(edges.JSONS, pa.json_())
    if VERSION >= (18, 0):
        columns["small_decimal"] = pa.array(edges.decimals(9, 2), pa.decimal32(9, 2))
        columns["decimal64"] = pa.array(edges.decimals(18, 2), pa.decimal64(18, 2))
    if VERSION >= (3, 0):
        columns["decimal256"] = pa.array(edges.decimals(38, 10), pa.decimal256(38, 10))
    return pa.table(columns)


def unknown_to_spark():
    """Return columns of types that Spark does not have."""
    columns = {"nothing": pa.array([None] * edges.ROWS, pa.null())}
    if VERSION >= (3, 0):
        columns["large_decimal"] = pa.array(edges.decimals(76, 10), pa.decimal256(76, 10))
    if VERSION >= (15, 0):
        columns["half"] = pa.array(edges.HALVES, pa.float16())
    return pa.table(columns)


def durations():
    return pa.table(
        {
            "duration": pa.array(edges.DURATIONS, pa.duration("us")),
            "duration_ns": pa.array(edges.DURATIONS, pa.duration("ns")),
            "duration_ms": pa.array([1, -1, 0, None], pa.int64())
            .cast(pa.duration("ms"))
            .take(pa.array([0, 1, 2, 3] * 2)),
        }
    )


def decimals():
    sizes = ((1, 0), (4, 4), (9, 2), (10, 0), (18, 18), (19, 5), (38, 0), (38, 38))
    return pa.table({f"decimal_{p}_{s}": pa.array(edges.decimals(p, s), pa.decimal128(p, s)) for p, s in sizes})


def times():
    columns = {
        "date": pa.array(edges.DATES, pa.date32()),
        "date64": pa.array(edges.DATES, pa.date32()).cast(pa.date64()),
        "time_s": pa.array(edges.MICROSECOND_TIMES, pa.time64("us")).cast(pa.time32("s"), safe=False),
        "time_ms": pa.array(edges.MICROSECOND_TIMES, pa.time64("us")).cast(pa.time32("ms"), safe=False),
        "time_us": pa.array(edges.MICROSECOND_TIMES, pa.time64("us")),
        "time_ns": pa.array(edges.MICROSECOND_TIMES, pa.time64("us")).cast(pa.time64("ns")),
    }
    wide = edges.MICROSECOND_TIMESTAMPS
    return pa.table(
        {**columns, **timestamps(wide, ("s", "ms", "us")), **timestamps(edges.NANOSECOND_TIMESTAMPS, ("ns",))}
    )


def timestamps(values, units):
    """Return columns of timestamps, for each unit and some time zones."""
    columns = {}
    for zone in (None, "UTC", "America/New_York", "+02:30"):
        for unit in units:
            numbers = pa.array(values, pa.timestamp("us")).cast(pa.int64()).to_pylist()
            divided = [one if one is None else one * 1000 if unit == "ns" else one // PER_UNIT[unit] for one in numbers]
            column = pa.array(divided, pa.int64()).cast(pa.timestamp(unit, zone))
            columns[f"timestamp_{unit}{'' if zone is None else f'_{zone}'}"] = column
    return columns


def nanoseconds():
    numbers = pa.array([1, 999, None, -1, 0, 1_000_001, 7, 8])
    return pa.table({"timestamp": numbers.cast(pa.timestamp("ns")), "time": pa.array([1, 999] * 4, pa.time64("ns"))})


def int96():
    """Return timestamps that INT96 holds."""
    names = ["timestamp_ms", "timestamp_us", "timestamp_ns", "timestamp_us_UTC"]
    return pa.table({name: times().column(name) for name in names})


def pairs_of(maps):
    return [one if one is None else list(one.items()) for one in maps]


def nested():
    fields = [("a", pa.int32()), ("b", pa.string())]
    structs = pa.struct(fields)
    columns = {
        "list": pa.array(edges.LISTS, pa.list_(pa.int32())),
        "texts": pa.array(edges.STRING_LISTS, pa.list_(pa.string())),
        "nested": pa.array(edges.NESTED_LISTS, pa.list_(pa.list_(pa.int32()))),
        "struct": pa.array(edges.STRUCTS, structs),
        "structs": pa.array(edges.STRUCT_LISTS, pa.list_(structs)),
        "deep": pa.array([one and {"in": one} for one in edges.STRUCTS], pa.struct([("in", structs)])),
        "map": pa.array(pairs_of(edges.MAPS), pa.map_(pa.string(), pa.int32())),
    }
    if VERSION >= (6, 0):
        columns["large_list"] = pa.array(edges.LISTS, pa.large_list(pa.int32()))
        pairs = [[1, 2], [None, 3], None, [0, 0], [2**31 - 1, -1], [None, None], [1, 1], [5, 6]]
        columns["pairs"] = pa.array([one or [None, None] for one in pairs], pa.list_(pa.int32(), 2))
        lists = [one and [(key, [value]) for key, value in one] for one in pairs_of(edges.MAPS)]
        columns["map_of_lists"] = pa.array(lists, pa.map_(pa.string(), pa.list_(pa.int32())))
        times_of = [[value] for value in edges.MICROSECOND_TIMESTAMPS]
        columns["times"] = pa.array(times_of, pa.list_(pa.timestamp("us")))
        columns["dates"] = pa.array([[value] for value in edges.DATES], pa.list_(pa.date32()))
        columns["decimals"] = pa.array([[value] for value in edges.decimals(20, 3)], pa.list_(pa.decimal128(20, 3)))
        categories = pa.array([None, ["x"], ["y", "x"], [], ["x"], ["y"], [None], ["x"]], pa.list_(pa.string()))
        columns["categories"] = pa.ListArray.from_arrays(categories.offsets, categories.values.dictionary_encode())
    return pa.table(columns)


def names():
    texts = ["UPPER", "with space", "with.dot", "ünïcödé", "with`tick", "a,b;c{d}(e)=f", "2", "select", "__x__", "漢"]
    numbers = pa.array(range(edges.ROWS))
    struct = pa.array([{"In.ner": 1, "IN ner": "x"}] * edges.ROWS)
    return pa.table({**dict.fromkeys(texts, numbers), "Struct": struct})


def many():
    return pa.table({"n": pa.array(range(3000)), "text": pa.array([f"text {n % 50}" for n in range(3000)])})


def primitives_for_orc():
    """Return the columns that ORC has a type for."""
    unsigned = [column for column in primitives().column_names if column.startswith("uint")]
    return primitives().drop([*unsigned, "fixed_binary", "categories"])


def writable(table, write):
    """Return the columns that this version can write, by a function that writes a table."""
    kept = {}
    for column in table.column_names:
        try:
            write(pa.table({column: table.column(column)}), pa.BufferOutputStream())
        except (pa.ArrowException, TypeError, OSError) as error:
            print(pa.__version__, column, str(error)[:100])
        else:
            kept[column] = table.column(column)
    return pa.table(kept)


def write_parquet(path, table, **options):
    """Write a file, or leave it out if this version lacks an option."""
    try:
        pq.write_table(table, str(path), **options)
    except TypeError as error:
        print(path.name, error)


def write_types(name):
    """Write the files that old versions write too."""
    write_parquet(name("primitives.parquet"), primitives())
    write_parquet(name("primitives_page_v2.parquet"), primitives(), data_page_version="2.0", compression="zstd")
    write_parquet(name("others.parquet"), writable(others(), pq.write_table))
    for column in unknown_to_spark().column_names:
        write_parquet(name(f"{column}.parquet"), pa.table({column: unknown_to_spark().column(column)}))
    if VERSION >= (14, 0):
        write_parquet(name("durations.parquet"), durations())
    write_parquet(name("decimals.parquet"), decimals())
    write_parquet(name("times_v1.parquet"), times(), version="1.0")
    write_parquet(name("times.parquet"), times())
    write_parquet(name("times_ms.parquet"), times(), coerce_timestamps="ms", allow_truncated_timestamps=True)
    write_parquet(name("nanoseconds.parquet"), nanoseconds(), version="2.0" if VERSION < (6, 0) else "2.6")
    write_parquet(name("int96.parquet"), int96(), use_deprecated_int96_timestamps=True)
    write_parquet(name("nested.parquet"), nested())
    if VERSION >= (4, 0):
        write_parquet(name("nested_other.parquet"), nested(), use_compliant_nested_type=VERSION < (14, 0))
    write_parquet(name("names.parquet"), names())


def write_layouts(name):
    """Write the files that are about codecs, encodings and parts of files."""
    write_parquet(name("primitives_v1.parquet"), primitives(), version="1.0", use_dictionary=False)
    write_parquet(name("primitives_without_arrow.parquet"), primitives(), store_schema=False)
    write_parquet(name("others_without_arrow.parquet"), writable(others(), pq.write_table), store_schema=False)
    write_parquet(name("times_without_arrow.parquet"), times(), store_schema=False)
    write_parquet(name("decimals_integers.parquet"), decimals(), store_decimal_as_integer=True)
    write_parquet(name("without_rows.parquet"), primitives().slice(0, 0))
    write_parquet(name("without_columns.parquet"), pa.table({}))
    write_parquet(name("row_groups.parquet"), many(), row_group_size=1000, data_page_size=1024)
    write_parquet(name("page_index.parquet"), many(), write_page_index=True, data_page_size=1024)
    write_parquet(name("checksums.parquet"), many().slice(0, 100), write_page_checksum=True)
    write_parquet(name("blooms.parquet"), many().slice(0, 100), bloom_filter_options={"n": True, "text": True})
    for codec in ("none", "gzip", "brotli", "lz4", "zstd"):
        write_parquet(name(f"{codec}.parquet"), primitives().select(["number", "text"]), compression=codec)
    encodings = {
        "int32": "DELTA_BINARY_PACKED",
        "int64": "DELTA_BINARY_PACKED",
        "int16": "BYTE_STREAM_SPLIT",
        "uint32": "BYTE_STREAM_SPLIT",
        "uint64": "DELTA_BINARY_PACKED",
        "float": "BYTE_STREAM_SPLIT",
        "double": "BYTE_STREAM_SPLIT",
        "fixed_binary": "BYTE_STREAM_SPLIT",
        "text": "DELTA_BYTE_ARRAY",
        "binary": "DELTA_LENGTH_BYTE_ARRAY",
        "boolean": "RLE",
    }
    for page_version in ("1.0", "2.0"):
        write_parquet(
            name(f"encodings_page_v{page_version[0]}.parquet"),
            primitives().select(list(encodings)),
            use_dictionary=False,
            column_encoding=encodings,
            data_page_version=page_version,
        )


def write_orc(name):
    from pyarrow import orc

    narrow = edges.NANOSECOND_TIMESTAMPS
    recent = [one if one is None or one.year >= 1970 else None for one in narrow]
    dates = pa.array(edges.DATES, pa.date32())
    for kind, table in (
        ("primitives", primitives_for_orc()),
        ("others", writable(others().append_column("fixed_binary", primitives()["fixed_binary"]), orc.write_table)),
        ("decimals", decimals()),
        ("times", pa.table({"date": dates, **timestamps(recent, ("s", "ms", "us", "ns"))})),
        ("times_before_1970", pa.table(timestamps(narrow, ("ns",)))),
        (
            "wide_times",
            pa.table({"date64": dates.cast(pa.date64()), **timestamps(edges.MICROSECOND_TIMESTAMPS, ("s",))}),
        ),
        ("nanoseconds", nanoseconds().select(["timestamp"])),
        ("nested", writable(nested(), orc.write_table)),
        ("names", names()),
    ):
        if table.num_columns:
            orc.write_table(table, str(name(f"{kind}.orc")))


def write_layouts_of_orc(name):
    from pyarrow import orc

    table = primitives_for_orc()
    for codec in ("uncompressed", "snappy", "zlib", "lz4", "zstd"):
        orc.write_table(table.select(["number", "text"]), str(name(f"{codec}.orc")), compression=codec)
    orc.write_table(table.slice(0, 0), str(name("without_rows.orc")))
    orc.write_table(many(), str(name("stripes.orc")), stripe_size=1024, batch_size=512)
    orc.write_table(table, str(name("version_0_11.orc")), file_version="0.11")
    orc.write_table(table, str(name("blooms.orc")), bloom_filter_columns=[0, 4])


def write_arrow(name):
    """Write files of Arrow IPC. Each has the same rows as the Parquet file of the same name."""
    for kind, table in (
        ("primitives", primitives()),
        ("times", times()),
        ("decimals", decimals()),
        ("nested", nested()),
        ("names", names()),
        ("without_rows", primitives().slice(0, 0)),
    ):
        pyarrow.feather.write_feather(table, str(name(f"{kind}.arrow")), compression="lz4")
    stream = pa.RecordBatchStreamWriter(str(name("primitives.arrows")), primitives().schema)
    stream.write_table(primitives())
    stream.close()


def main(directory):
    def name(kind):
        return directory / f"pyarrow-{pa.__version__}-{kind}"

    write_types(name)
    if VERSION >= (6, 0):
        write_orc(name)
    if VERSION >= (26, 0):
        write_layouts(name)
        write_layouts_of_orc(name)
        write_arrow(name)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
