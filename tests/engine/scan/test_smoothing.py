"""The levels at which seed 004 smooths schema changes, one test each."""

import pyarrow as pa


def test_level_0_a_reader_may_give_only_what_is_asked_for(scans):
    reader = scans.reader(scans.batch(a=[1], c=["x"]))
    assert scans.read(reader, columns=["c", "a"]) == [{"c": "x", "a": 1}]
    assert reader.asked == ["a", "c"]


def test_level_1_columns_that_an_explicit_list_does_not_name_change_nothing(scans):
    files = [scans.batch(a=[1], d=[2]), scans.batch(d=["x"], a=[3], f=[[4]])]
    scan = scans.of(*(scans.reader(file) for file in files), columns=["a"])
    versions = {(batch.schema, scan.schema_version) for batch in scan.batches()}
    assert [schema.names for schema, _ in versions] == [["a"]]


def test_level_2_missing_columns_are_filled_in_with_the_type_already_seen(scans):
    files = [scans.batch(a=[1], b=pa.array([2], pa.int16()), m=[{"x": 1, "y": "z"}]), scans.batch(a=[3], m=[{"x": 4}])]
    first, second = scans.of(*(scans.reader(file) for file in files), columns=["a", "b", "m"]).batches()
    assert second.schema == first.schema
    assert second.to_pylist() == [{"a": 3, "b": None, "m": {"x": 4, "y": None}}]


def test_level_3_columns_in_another_order_come_in_that_of_the_list_with_implicit_ones_among_them(scans):
    files = [scans.batch(a=[1], b=[2]), scans.batch(b=[2], a=[1])]
    batches = list(scans.of(*(scans.reader(file) for file in files), columns=["b", "filename", "a"]).batches())
    assert [list(row.items()) for batch in batches for row in batch.to_pylist()] == [
        [("b", 2), ("filename", f"{number}.x"), ("a", 1)] for number in range(2)
    ]


def test_level_4_schemas_that_are_the_same_in_the_end_are_no_change(scans):
    late = scans.reader(scans.batch(a=[1]), scans.batch(a=[2], b=["x"]))
    early = scans.reader(scans.batch(b=["y"], a=[3]), schema=pa.schema([("b", pa.string()), ("a", pa.int64())]))
    scan = scans.of(late, early)
    seen = [(batch.schema, scan.schema_version) for batch in scan.batches()]
    assert len(seen) == 2
    assert len(set(seen)) == 1
