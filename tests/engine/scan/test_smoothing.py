"""The levels of smoothing in [scan-framework "Schema Evolution"], one test each."""

import pyarrow as pa


def test_level_0_reader_learns_which_columns_are_wanted(scans):
    reader = scans.reader(scans.batch(a=[1], c=["x"]))
    assert scans.read(reader, columns=["c", "a"]) == [{"c": "x", "a": 1}]
    assert reader.projected == ["a", "c"]


def test_level_1_unnamed_columns_change_nothing(scans):
    files = [scans.batch(a=[1], d=[2]), scans.batch(d=["x"], a=[3], f=[[4]])]
    scan = scans.of(*(scans.reader(file) for file in files), columns=["a"])
    versions = {(batch.schema, scan.schema_version) for batch in scan.batches()}
    assert [schema.names for schema, _ in versions] == [["a"]]


def test_level_2_missing_columns_have_known_type(scans):
    files = [scans.batch(a=[1], b=pa.array([2], pa.int16()), m=[{"x": 1, "y": "z"}]), scans.batch(a=[3], m=[{"x": 4}])]
    first, second = scans.of(*(scans.reader(file) for file in files), columns=["a", "b", "m"]).batches()
    assert second.schema == first.schema
    assert second.to_pylist() == [{"a": 3, "b": None, "m": {"x": 4, "y": None}}]


def test_level_3_columns_are_in_order_of_project_list(scans):
    files = [scans.batch(a=[1], b=[2]), scans.batch(b=[2], a=[1])]
    batches = list(scans.of(*(scans.reader(file) for file in files), columns=["b", "filename", "a"]).batches())
    assert [list(row.items()) for batch in batches for row in batch.to_pylist()] == [
        [("b", 2), ("filename", f"{number}.x"), ("a", 1)] for number in range(2)
    ]


def test_level_4_equal_schemas_are_no_change(scans):
    late = scans.reader(scans.batch(a=[1]), scans.batch(a=[2], b=["x"]))
    early = scans.reader(scans.batch(b=["y"], a=[3]), schema=pa.schema([("b", pa.string()), ("a", pa.int64())]))
    scan = scans.of(late, early)
    seen = [(batch.schema, scan.schema_version) for batch in scan.batches()]
    assert len(seen) == 2
    assert len(set(seen)) == 1
