"""Valid files of every format with changed bytes: a scan returns rows or an engine error.

The scans run in another process, so a crash inside Arrow, a hang or too much memory fails the test. The examples are
the same in each run.
"""

import datetime
import gzip
import json
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import feather, orc, parquet

from tests.engine.file_bytes import compressed, write_stream, written

TABLE = pa.table(
    {
        "i": [1, None, 3] * 5,
        "s": ["x", "é", None] * 5,
        "d": pa.array([Decimal("1.10"), None, Decimal("-2.20")] * 5, pa.decimal128(10, 2)),
        "t": [datetime.date(2026, 11, 21), None, datetime.date(1, 1, 1)] * 5,
        "m": [{"x": 1, "l": ["a"]}, None, {"x": None, "l": []}] * 5,
    }
)
CSV = b"a,b\n" + '1,"x, y"\n2,é\n3,"two\nlines"\n'.encode() * 5
JSON = [{"a": 1, "b": {"c": [1, 2.5, None]}, "s": "x"}, {"a": None, "s": '"é'}, {"b": {"c": []}}] * 5


LINES = "".join(json.dumps(row) + "\n" for row in JSON).encode()
FILES = {
    "a.parquet": written(parquet.write_table, TABLE, row_group_size=5),
    "plain.parquet": written(
        parquet.write_table,
        TABLE,
        compression="none",
        use_dictionary=False,
        data_page_version="2.0",
        write_page_index=True,
    ),
    "a.orc": written(orc.write_table, TABLE),
    "zlib.orc": written(orc.write_table, TABLE, compression="zlib"),
    "a.feather": written(feather.write_feather, TABLE),
    "plain.feather": written(feather.write_feather, TABLE, compression="uncompressed"),
    "a.arrow": written(write_stream, TABLE),
    "a.csv": CSV,
    "a.csv.gz": gzip.compress(CSV, mtime=0),
    "a.csv.bz2": compressed("bz2", CSV),
    "a.csv.zst": compressed("zstd", CSV),
    "a.jsonl": LINES,
    "a.jsonl.lz4": compressed("lz4", LINES),
    "pretty.json": json.dumps(JSON, indent=1).encode(),
}
changes = st.lists(
    st.tuples(
        st.floats(0, 1, exclude_max=True),
        st.sampled_from(["set", "flip", "cut", "insert", "end"]),
        st.binary(min_size=1, max_size=4),
    ),
    min_size=1,
    max_size=3,
)


def changed(data, changes):
    for place, kind, new in changes:
        at = int(place * len(data))
        if kind == "end":
            data = data[:at]
        elif kind == "insert":
            data = data[:at] + new + data[at:]
        elif kind == "flip":
            data = data[:at] + bytes(byte ^ (1 << new[0] % 8) for byte in data[at : at + 1]) + data[at + 1 :]
        else:
            data = data[:at] + (new if kind == "set" else b"") + data[at + len(new) :]
    return data


@pytest.mark.slow
@pytest.mark.parametrize("path", FILES)
@given(changes=changes)
@settings(
    max_examples=30,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_corrupt_file_gives_rows_or_error_that_names_it(workspace, scan_process, path, changes):
    workspace.write(path, changed(FILES[path], changes))
    outcome = scan_process.scan(workspace.scan(path), **({"header": "true"} if ".csv" in path else {}))
    if outcome.error is not None:
        assert path in outcome.error[1]
        assert "\n" not in outcome.error[1]


@pytest.mark.parametrize("path", FILES)
def test_unchanged_file_gives_its_rows(workspace, scan_process, path):
    workspace.write(path, FILES[path])
    assert scan_process.scan(workspace.scan(path), **({"header": "true"} if ".csv" in path else {})).rows == 15
