"""The life of a scan: readers that follow one another, fail, end early or change their schema."""

import pyarrow as pa
import pytest

from engine.errors import EngineError, ReaderError, SchemaConflictError
from engine.limits import BatchLimits
from engine.schema import TupleSchema


def test_readers_follow_one_another_and_each_is_closed_once(scans):
    readers = [scans.reader(scans.batch(a=[1]), scans.batch(a=[2])), scans.reader(scans.batch(a=[3]))]
    assert scans.read(*readers) == [{"a": 1}, {"a": 2}, {"a": 3}]
    assert [(reader.opened, reader.closed) for reader in readers] == [(1, 1), (1, 1)]


def test_a_reader_with_nothing_is_passed_over(scans):
    assert scans.read(scans.reader(is_empty=True), scans.reader(scans.batch(a=[1])), scans.reader()) == [{"a": 1}]


def test_files_without_rows_give_one_empty_batch_if_a_schema_is_known(scans):
    schema = pa.schema([pa.field("a", pa.int64())])
    batches = list(scans.of(scans.reader(schema=schema), scans.reader(schema=schema)).batches())
    assert [(batch.num_rows, batch.schema.names) for batch in batches] == [(0, ["a"])]
    assert list(scans.of(scans.reader()).batches()) == []


def test_columns_that_are_not_wanted_are_not_read_and_the_order_is_the_query_s(scans):
    reader = scans.reader(scans.batch(a=[1], b=[2], c=[3]))
    (batch,) = scans.of(reader, columns=["C", "a"]).batches()
    assert batch.to_pylist() == [{"C": 3, "a": 1}]
    assert reader.asked == ["a", "c"]


def test_a_column_that_a_later_file_lacks_keeps_its_type(scans):
    first, second = scans.of(scans.reader(scans.batch(a=[1], b=["x"])), scans.reader(scans.batch(a=[2]))).batches()
    assert second.schema == first.schema
    assert second.to_pylist() == [{"a": 2, "b": None}]


def test_a_column_that_no_file_has_is_null_of_the_type_that_is_asked_for(scans):
    (batch,) = scans.of(scans.reader(scans.batch(a=[1])), columns=["a", "z"], missing_type=pa.int32()).batches()
    assert batch.schema.field("z").type == pa.int32()
    assert batch.to_pylist() == [{"a": 1, "z": None}]


def test_a_new_column_of_a_later_file_is_left_out_or_changes_the_schema_as_the_plan_says(scans, caplog):
    files = lambda: (scans.reader(scans.batch(a=[1])), scans.reader(scans.batch(a=[2], b=["x"])))  # noqa: E731
    assert scans.read(*files()) == [{"a": 1}, {"a": 2}]
    assert "'b' is left out" in caplog.text
    assert "1.x" in caplog.text
    changing = scans.of(*files(), allows_schema_change=True)
    versions = [(changing.schema_version, batch.to_pylist()) for batch in changing.batches()]
    assert [batch for _, batch in versions] == [[{"a": 1}], [{"a": 2, "b": "x"}]]
    assert versions[1][0] > versions[0][0]


def test_the_order_of_columns_is_that_of_the_first_file(scans):
    assert [
        list(row)
        for row in scans.read(scans.reader(scans.batch(a=[1], b=[2])), scans.reader(scans.batch(b=[3], a=[4])))
    ] == [["a", "b"]] * 2


def test_a_type_that_changes_names_file_column_and_both_types(scans):
    with pytest.raises(SchemaConflictError) as raised:
        scans.read(scans.reader(scans.batch(a=[1])), scans.reader(scans.batch(a=["x"])))
    message = str(raised.value)
    assert all(part in message for part in ("1.x", "'a'", "string", "int64"))


def test_members_that_a_map_lacks_are_null_also_in_lists_and_slices(scans):
    promised = pa.struct([("x", pa.int64()), ("y", pa.string())])
    defined = TupleSchema([pa.field("m", promised), pa.field("l", pa.list_(promised))])
    batch = scans.batch(m=[{"x": 1}, None, {"x": 3}], l=[[{"y": "p"}], None, [{"y": "q"}, {"y": None}]])
    reader = scans.reader(batch.slice(1))
    assert scans.read(reader, defined=defined, columns=["m", "l"]) == [
        {"m": None, "l": None},
        {"m": {"x": 3, "y": None}, "l": [{"x": None, "y": "q"}, {"x": None, "y": None}]},
    ]


@pytest.mark.parametrize("fails_at", ["open", "close"])
def test_a_failure_names_the_file_keeps_the_cause_and_closes_once(scans, fails_at):
    reader = scans.reader(scans.batch(a=[1]), fails_at=fails_at)
    with pytest.raises(ReaderError, match=f"'0.x' in workspace 'dfs': the reader could not {fails_at}") as raised:
        scans.read(reader)
    assert isinstance(raised.value.__cause__, ValueError)
    assert reader.closed == 1


def test_a_failure_in_the_middle_leaves_the_batches_before_it_and_an_own_error_as_it_is(scans):
    reader = scans.reader(scans.batch(a=[1]), EngineError("as it is"))
    batches = scans.of(reader, limits=BatchLimits(rows=1)).batches()
    assert next(batches).to_pylist() == [{"a": 1}]
    with pytest.raises(EngineError, match=r"^as it is$"):
        next(batches)
    assert reader.closed == 1


def test_batches_that_are_given_up_close_their_reader_and_open_no_other(scans):
    readers = [scans.reader(scans.batch(a=[1, 2, 3])), scans.reader(scans.batch(a=[4]))]
    batches = scans.of(*readers, limits=BatchLimits(rows=1)).batches()
    next(batches)
    batches.close()
    assert [reader.closed for reader in readers] == [1, 0]


@pytest.mark.parametrize(("limit", "opened"), [(0, 1), (1, 1), (2, 1), (3, 2), (4, 2), (9, 3)])
def test_after_the_limit_no_other_file_is_opened(scans, limit, opened):
    readers = [
        scans.reader(scans.batch(a=[1, 2])),
        scans.reader(scans.batch(a=[3, 4])),
        scans.reader(scans.batch(a=[5])),
    ]
    assert len(scans.read(*readers, limits=BatchLimits(rows=1, scan_rows=limit))) == min(limit, 5)
    assert sum(reader.opened for reader in readers) == opened


def test_rows_that_overflow_at_the_end_of_a_file_come_before_the_next_file(scans):
    big = "x" * 600
    readers = [scans.reader(scans.batch(a=[big, big])), scans.reader(scans.batch(a=["y"]))]
    batches = list(scans.of(*readers, limits=BatchLimits(vector_bytes=1000)).batches())
    assert [batch.num_rows for batch in batches] == [1, 1, 1]


def test_no_column_at_all_still_counts_rows(scans):
    batches = list(
        scans.of(scans.reader(scans.batch(a=[1, 2])), scans.reader(scans.batch(b=[3])), columns=[]).batches()
    )
    assert [(batch.num_rows, batch.num_columns) for batch in batches] == [(2, 0), (1, 0)]


def test_columns_are_moved_not_copied(scans):
    batch = scans.batch(a=[1, 2, 3], b=["x", "y", "z"])
    (out,) = scans.of(scans.reader(batch), columns=["b", "a"]).batches()
    assert out.column(1).buffers()[1].address == batch.column(0).buffers()[1].address
