"""Readers of text in a scan with declared types, as Drill's fixed receiver reads them."""

import datetime

import pyarrow as pa
import pytest

from engine.errors import ValueConversionError
from engine.schema import TupleSchema

DECLARED = TupleSchema(
    [
        pa.field("n", pa.int32()),
        pa.field("d", pa.date32()),
        pa.field("b", pa.bool_()),
        pa.field("z", pa.int64(), nullable=False, metadata={"lodge.default": "11"}),
    ]
)


@pytest.mark.parametrize("is_strict", [False, True])
def test_text_becomes_declared_types_and_missing_column_its_default(scans, is_strict):
    reader = scans.reader(scans.batch(d=["2026-11-21", None], n=["7", None], b=["true", "false"]))
    assert scans.read(reader, provided=DECLARED, is_strict=is_strict) == [
        {"n": 7, "d": datetime.date(2026, 11, 21), "b": True, "z": 11},
        {"n": None, "d": None, "b": False, "z": 11},
    ]


def test_only_strict_declaration_leaves_out_other_columns(scans):
    rows = [
        scans.read(scans.reader(scans.batch(n=["7"], x=["y"])), provided=DECLARED, is_strict=is_strict)[0]
        for is_strict in (False, True)
    ]
    assert [list(row) for row in rows] == [["n", "d", "b", "z", "x"], ["n", "d", "b", "z"]]


def test_numbers_become_declared_text(scans):
    rows = scans.read(scans.reader(scans.batch(a=[7])), provided=TupleSchema([pa.field("a", pa.string())]))
    assert rows == [{"a": "7"}]


def test_invalid_text_names_file_row_and_column(scans):
    with pytest.raises(ValueConversionError, match=r"'0.x' in workspace 'dfs', row 2: column 'n' must be int.*'many'"):
        scans.read(scans.reader(scans.batch(n=["1", "many"])), provided=DECLARED)
