"""Annotations of Parquet that Arrow does not show (engine.readers.columnar.parquet_annotations)."""

import pyarrow as pa
import pytest
from pyarrow import parquet

from engine.readers.columnar.parquet_annotations import Annotation, find_annotations
from engine.scan.row_filter import RowFilter
from tests.engine.file_bytes import written

STRING = b"\x25\x00\x4c\x1c\x00"
"""The converted type UTF8 and the logical type STRING of a schema element."""
ENUM = b"\x25\x08\x4c\x4c\x00"


def annotated(table, annotation):
    """Return a file in which each text has another annotation of the same length."""
    data = written(parquet.write_table, table, store_schema=False)
    assert STRING in data
    return data.replace(STRING, annotation)


def test_enum_is_text(memory_file):
    table = pa.table(
        {
            "color": ["RED", None],
            "many": pa.array([["BLUE", None], None]),
            "member": pa.array([{"c": "RED", "n": 1}, None]),
            "last": ["x", "y"],
        }
    )
    file = memory_file("a.parquet", annotated(table, ENUM))
    assert [field.type for field in file.discover()] == [
        field.type for field in memory_file("a.parquet", written(parquet.write_table, table)).discover()
    ]
    assert file.rows() == table.to_pylist()
    assert file.rows(row_filters=[RowFilter("color", "=", ["RED"])]) == table.to_pylist()
    assert file.rows(row_filters=[RowFilter("color", ">", ["ZZZ"])]) in ([], table.to_pylist())


def footer(*elements):
    """Return the metadata of a file with the given schema elements."""
    return b"\x15\x02\x19" + bytes([len(elements) << 4 | 12]) + b"".join(elements) + b"\x16\x02\x00"


def element(name, children=0, *, logical=b"", converted=0):
    data = b"\x48" + bytes([len(name)]) + name.encode()
    data += b"\x15" + bytes([2 * children]) if children else b""
    last = 5 if children else 4
    if converted:
        data += bytes([(6 - last) << 4 | 5, 2 * converted])
        last = 6
    return data + (bytes([(10 - last) << 4 | 12]) + logical + b"\x00\x00" if logical else b"\x00")


@pytest.mark.parametrize(
    ("logical", "name"),
    [(b"\x0c\x20\x15\x02\x00", "VARIANT"), (b"\x0c\x22\x00", "GEOMETRY"), (b"\x0c\x24\x00", "GEOGRAPHY")],
)
def test_columns_of_unknown_types_are_found_at_any_depth(logical, name):
    other, inner = element("a"), element("v", 2, logical=logical)
    nested = [element("s", 2), element("x"), inner, element("metadata"), element("value")]
    flat = [element("w", logical=logical), element("z")]
    found = find_annotations(footer(element("schema", 4), other, *nested, *flat))
    assert found == [Annotation(2, 4, name), Annotation(4, 5, name)]


def test_interval_is_found():
    found = find_annotations(footer(element("schema", 2), element("a"), element("i", converted=21)))
    assert found == [Annotation(1, 2, "INTERVAL")]


@pytest.mark.parametrize(
    ("logical", "crs", "is_spherical"),
    [
        (b"\x0c\x24\x00", None, True),
        (b"\x0c\x24\x18\x09EPSG:3857\x00", "EPSG:3857", True),
        (b"\x0c\x24\x18\x09EPSG:3857\x15\x02\x00", "EPSG:3857", False),
    ],
)
def test_reference_system_of_geography(logical, crs, is_spherical):
    found = find_annotations(footer(element("schema", 1), element("g", logical=logical)))
    assert found == [Annotation(0, 1, "GEOGRAPHY", crs, is_spherical)]


def test_cut_footer_is_an_error():
    whole = footer(element("schema", 1), element("w", logical=b"\x0c\x20\x00"))
    with pytest.raises(pa.ArrowInvalid):
        find_annotations(whole[: whole.index(b"\x0c\x20") + 2])


def test_ordinary_files_have_none():
    table = pa.table({"a": [1], "s": ["x"], "m": pa.array([{"x": 42, "y": [b"*"]}])})
    data = written(parquet.write_table, table)
    size = int.from_bytes(data[-8:-4], "little")
    assert find_annotations(data[-8 - size : -8]) == []
