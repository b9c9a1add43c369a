"""Files that the C++ library of ORC writes, through PyORC. The argument is their directory."""

import sys
from pathlib import Path
from zoneinfo import ZoneInfo

import edge_values as edges
import pyorc

UTC = ZoneInfo("UTC")

PRIMITIVES = {
    "boolean": edges.BOOLEANS,
    "tinyint": edges.integers(8),
    "smallint": edges.integers(16),
    "int": edges.integers(32),
    "bigint": edges.integers(64),
    "float": edges.FLOATS,
    "double": edges.DOUBLES,
    "string": edges.STRINGS,
    "binary": edges.BINARIES,
    "date": edges.DATES,
    "char(5)": ["", "a", "  b", "12345", "ä", None, "1234567", "x "],
    "varchar(5)": ["", "a", "  b", "12345", "ä", None, "1234567", "x "],
}
TIMES = {
    "timestamp": edges.in_utc(edges.NANOSECOND_TIMESTAMPS),
    "timestamp with local time zone": edges.in_utc(edges.NANOSECOND_TIMESTAMPS),
}
WIDE_TIMES = {
    "timestamp": edges.in_utc([*edges.MICROSECOND_TIMESTAMPS[1:-1], None, None]),
    "timestamp with local time zone": edges.in_utc([*edges.MICROSECOND_TIMESTAMPS[1:-1], None, None]),
}
NESTED = {
    "array<int>": edges.LISTS,
    "array<array<int>>": edges.NESTED_LISTS,
    "map<string,int>": edges.MAPS,
    "struct<a:int,b:string>": [one and (one["a"], one["b"]) for one in edges.STRUCTS],
    "array<timestamp>": [[one] for one in TIMES["timestamp"]],
    "array<date>": [[one] for one in edges.DATES],
    "array<decimal(20,3)>": [[one] for one in edges.decimals(20, 3)],
    "map<date,array<binary>>": [one and {one: [b"x", None]} for one in edges.DATES],
}
DECIMALS = {
    f"decimal({p},{s})": edges.decimals(p, s)
    for p, s in ((1, 0), (4, 4), (9, 2), (10, 0), (18, 18), (19, 5), (38, 0), (38, 38))
}
UNION = {"int": edges.integers(32), "uniontype<int,string>": [1, "a", 3, "", -1, 2, "ä", 0]}


def write(path, columns, zone=UTC, **options):
    """Write columns, whose names are those of their types."""
    fields = ",".join(
        f"c{number}_{type_.partition('(')[0].partition('<')[0].replace(' ', '_')}:{type_}"
        for number, type_ in enumerate(columns)
    )
    with path.open("wb") as file, pyorc.Writer(file, f"struct<{fields}>", timezone=zone, **options) as writer:
        writer.writerows(list(zip(*columns.values(), strict=True)))


def main(directory):
    def name(kind):
        return directory / f"pyorc-{pyorc.__version__}-{kind}.orc"

    write(name("primitives"), PRIMITIVES)
    write(name("primitives_without_dictionaries"), PRIMITIVES, dict_key_size_threshold=0.0)
    write(name("times"), TIMES)
    write(name("wide_times"), WIDE_TIMES)
    write(name("times_of_new_york"), TIMES, ZoneInfo("America/New_York"))
    write(name("nested"), NESTED)
    write(name("decimals"), DECIMALS)
    write(name("union"), UNION)
    write(name("without_rows"), {type_: [] for type_ in PRIMITIVES})
    for kind in ("NONE", "ZLIB", "SNAPPY", "LZ4", "ZSTD"):
        columns = {type_: PRIMITIVES[type_] for type_ in ("int", "string")}
        write(name(kind.lower()), columns, compression=pyorc.CompressionKind[kind])
    many = {"bigint": range(3000), "string": [f"text {n % 50}" for n in range(3000)]}
    write(
        name("stripes"), many, stripe_size=1024, batch_size=256, bloom_filter_columns=(0, 1, 2), row_index_stride=1000
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
