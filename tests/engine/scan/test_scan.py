"""Scans: the order of readers, the columns of the output, and schema changes."""

import pyarrow as pa

from engine.schema import TupleSchema


def test_readers_are_opened_and_closed_once_in_order(scans):
    readers = [scans.reader(scans.batch(a=[1]), scans.batch(a=[2])), scans.reader(scans.batch(a=[3]))]
    assert scans.read(*readers) == [{"a": 1}, {"a": 2}, {"a": 3}]
    assert [(reader.opened, reader.closed) for reader in readers] == [(1, 1), (1, 1)]


def test_reader_without_rows_is_skipped(scans):
    assert scans.read(scans.reader(is_empty=True), scans.reader(scans.batch(a=[1])), scans.reader()) == [{"a": 1}]


def test_files_without_rows_give_one_empty_batch_if_schema_is_known(scans):
    schema = pa.schema([pa.field("a", pa.int64())])
    batches = list(scans.of(scans.reader(schema=schema), scans.reader(schema=schema)).batches())
    assert [(batch.num_rows, batch.schema.names) for batch in batches] == [(0, ["a"])]
    assert list(scans.of(scans.reader()).batches()) == []


def test_only_wanted_columns_are_read_in_order_of_query(scans):
    reader = scans.reader(scans.batch(a=[1], b=[2], c=[3]))
    (batch,) = scans.of(reader, columns=["C", "a"]).batches()
    assert batch.to_pylist() == [{"C": 3, "a": 1}]
    assert reader.projected == ["a", "c"]


def test_column_of_no_file_is_null_of_missing_type(scans):
    (batch,) = scans.of(scans.reader(scans.batch(a=[1])), columns=["a", "z"], missing_type=pa.int32()).batches()
    assert batch.schema.field("z").type == pa.int32()
    assert batch.to_pylist() == [{"a": 1, "z": None}]


def test_new_column_is_left_out_unless_schema_may_change(scans, caplog):
    files = lambda: (scans.reader(scans.batch(a=[1])), scans.reader(scans.batch(a=[2], b=["x"])))  # noqa: E731
    assert scans.read(*files()) == [{"a": 1}, {"a": 2}]
    assert "'b' is ignored" in caplog.text
    assert "1.x" in caplog.text
    changing = scans.of(*files(), allows_schema_change=True)
    versions = [(changing.schema_version, batch.to_pylist()) for batch in changing.batches()]
    assert [batch for _, batch in versions] == [[{"a": 1}], [{"a": 2, "b": "x"}]]
    assert versions[1][0] > versions[0][0]


def test_missing_members_are_null_even_in_lists_and_slices(scans):
    promised = pa.struct([("x", pa.int64()), ("y", pa.string())])
    defined = TupleSchema([pa.field("m", promised), pa.field("l", pa.list_(promised))])
    batch = scans.batch(m=[{"x": 1}, None, {"x": 3}], l=[[{"y": "p"}], None, [{"y": "q"}, {"y": None}]])
    reader = scans.reader(batch.slice(1))
    assert scans.read(reader, defined=defined, columns=["m", "l"]) == [
        {"m": None, "l": None},
        {"m": {"x": 3, "y": None}, "l": [{"x": None, "y": "q"}, {"x": None, "y": None}]},
    ]


def test_empty_project_list_counts_rows(scans):
    batches = list(
        scans.of(scans.reader(scans.batch(a=[1, 2])), scans.reader(scans.batch(b=[3])), columns=[]).batches()
    )
    assert [(batch.num_rows, batch.num_columns) for batch in batches] == [(2, 0), (1, 0)]


def test_scan_moves_columns_without_copy(scans):
    batch = scans.batch(a=[1, 2, 3], b=["x", "y", "z"])
    (out,) = scans.of(scans.reader(batch), columns=["b", "a"]).batches()
    assert out.column(1).buffers()[1].address == batch.column(0).buffers()[1].address
