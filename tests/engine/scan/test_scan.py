"""The life of a scan: readers that follow one another, fail, end early or change their schema."""

import pyarrow as pa
import pytest

from engine.context import ErrorContext
from engine.errors import EngineError, ReaderError, SchemaConflictError
from engine.limits import BatchLimits
from engine.projection.project_list import ProjectionList
from engine.scan.reader import SourceFile
from engine.scan.scan import Scan, ScanInput, ScanPlan
from engine.schema import TupleSchema


class FakeReader:
    """Gives batches one by one; fails where it is told to.

    Args:
        steps: Batches, or exceptions to raise, for each ``next``.
        schema: Told before reading, if the reader knows it.
        fails_at: ``open`` or ``close``.
        is_empty: ``open`` says that there is nothing.
    """

    def __init__(self, *steps, schema=None, fails_at="", is_empty=False):
        self.steps = list(steps)
        self.schema = schema
        self.fails_at = fails_at
        self.is_empty = is_empty
        self.opened = self.closed = 0
        self.asked = None

    def open(self, negotiator):
        self.opened += 1
        if self.fails_at == "open":
            raise ValueError("no luck")
        if self.is_empty:
            return False
        if self.schema is not None:
            negotiator.table_schema(TupleSchema.of(self.schema), is_complete=True)
        self.asked = [name for name in ("a", "b", "c") if negotiator.is_projected(name)]
        self.loader = negotiator.build()
        return True

    def next(self):
        if not self.steps:
            return False
        step = self.steps.pop(0)
        if isinstance(step, Exception):
            raise step
        self.loader.append(step)
        return bool(self.steps)

    def close(self):
        self.closed += 1
        if self.fails_at == "close":
            raise ValueError("no luck")


def rows(**columns):
    return pa.record_batch(columns)


def scan(*readers, selected=".", columns=None, **plan):
    inputs = [
        ScanInput(SourceFile("dfs", f"{number}.x", 1, lambda: None), lambda reader=reader: reader)
        for number, reader in enumerate(readers)
    ]
    if columns is not None:
        plan["projection"] = ProjectionList.parse(columns)
    return Scan(inputs, ScanPlan(selected=selected, **plan), ErrorContext("dfs"))


def read(*readers, **plan):
    return [row for batch in scan(*readers, **plan).batches() for row in batch.to_pylist()]


def test_readers_follow_one_another_and_each_is_closed_once():
    readers = [FakeReader(rows(a=[1]), rows(a=[2])), FakeReader(rows(a=[3]))]
    assert read(*readers) == [{"a": 1}, {"a": 2}, {"a": 3}]
    assert [(reader.opened, reader.closed) for reader in readers] == [(1, 1), (1, 1)]


def test_a_reader_with_nothing_is_passed_over():
    assert read(FakeReader(is_empty=True), FakeReader(rows(a=[1])), FakeReader()) == [{"a": 1}]


def test_files_without_rows_give_one_empty_batch_if_a_schema_is_known():
    schema = pa.schema([pa.field("a", pa.int64())])
    batches = list(scan(FakeReader(schema=schema), FakeReader(schema=schema)).batches())
    assert [(batch.num_rows, batch.schema.names) for batch in batches] == [(0, ["a"])]
    assert list(scan(FakeReader()).batches()) == []


def test_columns_that_are_not_wanted_are_not_read_and_the_order_is_the_query_s():
    reader = FakeReader(rows(a=[1], b=[2], c=[3]))
    (batch,) = scan(reader, columns=["C", "a"]).batches()
    assert batch.to_pylist() == [{"C": 3, "a": 1}]
    assert reader.asked == ["a", "c"]


def test_a_column_that_a_later_file_lacks_keeps_its_type():
    first, second = scan(FakeReader(rows(a=[1], b=["x"])), FakeReader(rows(a=[2]))).batches()
    assert second.schema == first.schema
    assert second.to_pylist() == [{"a": 2, "b": None}]


def test_a_column_that_no_file_has_is_null_of_the_type_that_is_asked_for():
    (batch,) = scan(FakeReader(rows(a=[1])), columns=["a", "z"], missing_type=pa.int32()).batches()
    assert batch.schema.field("z").type == pa.int32()
    assert batch.to_pylist() == [{"a": 1, "z": None}]


def test_a_new_column_of_a_later_file_is_left_out_or_changes_the_schema_as_the_plan_says(caplog):
    files = lambda: (FakeReader(rows(a=[1])), FakeReader(rows(a=[2], b=["x"])))  # noqa: E731
    assert read(*files()) == [{"a": 1}, {"a": 2}]
    assert "'b' is left out" in caplog.text
    assert "1.x" in caplog.text
    changing = scan(*files(), allows_schema_change=True)
    versions = [(changing.schema_version, batch.to_pylist()) for batch in changing.batches()]
    assert [batch for _, batch in versions] == [[{"a": 1}], [{"a": 2, "b": "x"}]]
    assert versions[1][0] > versions[0][0]


def test_the_order_of_columns_is_that_of_the_first_file():
    assert [list(row) for row in read(FakeReader(rows(a=[1], b=[2])), FakeReader(rows(b=[3], a=[4])))] == [
        ["a", "b"]
    ] * 2


def test_a_type_that_changes_names_file_column_and_both_types():
    with pytest.raises(SchemaConflictError) as raised:
        read(FakeReader(rows(a=[1])), FakeReader(rows(a=["x"])))
    message = str(raised.value)
    assert all(part in message for part in ("1.x", "'a'", "string", "int64"))


def test_members_that_a_map_lacks_are_null_also_in_lists_and_slices():
    promised = pa.struct([("x", pa.int64()), ("y", pa.string())])
    defined = TupleSchema([pa.field("m", promised), pa.field("l", pa.list_(promised))])
    batch = rows(m=[{"x": 1}, None, {"x": 3}], l=[[{"y": "p"}], None, [{"y": "q"}, {"y": None}]])
    reader = FakeReader(batch.slice(1))
    assert read(reader, defined=defined, columns=["m", "l"]) == [
        {"m": None, "l": None},
        {"m": {"x": 3, "y": None}, "l": [{"x": None, "y": "q"}, {"x": None, "y": None}]},
    ]


@pytest.mark.parametrize("fails_at", ["open", "close"])
def test_a_failure_names_the_file_keeps_the_cause_and_closes_once(fails_at):
    reader = FakeReader(rows(a=[1]), fails_at=fails_at)
    with pytest.raises(ReaderError, match=f"'0.x' in workspace 'dfs': the reader could not {fails_at}") as raised:
        read(reader)
    assert isinstance(raised.value.__cause__, ValueError)
    assert reader.closed == 1


def test_a_failure_in_the_middle_leaves_the_batches_before_it_and_an_own_error_as_it_is():
    reader = FakeReader(rows(a=[1]), EngineError("as it is"))
    batches = scan(reader, limits=BatchLimits(rows=1)).batches()
    assert next(batches).to_pylist() == [{"a": 1}]
    with pytest.raises(EngineError, match=r"^as it is$"):
        next(batches)
    assert reader.closed == 1


def test_batches_that_are_given_up_close_their_reader_and_open_no_other():
    readers = [FakeReader(rows(a=[1, 2, 3])), FakeReader(rows(a=[4]))]
    batches = scan(*readers, limits=BatchLimits(rows=1)).batches()
    next(batches)
    batches.close()
    assert [reader.closed for reader in readers] == [1, 0]


@pytest.mark.parametrize(("limit", "opened"), [(0, 1), (1, 1), (2, 1), (3, 2), (4, 2), (9, 3)])
def test_after_the_limit_no_other_file_is_opened(limit, opened):
    readers = [FakeReader(rows(a=[1, 2])), FakeReader(rows(a=[3, 4])), FakeReader(rows(a=[5]))]
    assert len(read(*readers, limits=BatchLimits(rows=1, scan_rows=limit))) == min(limit, 5)
    assert sum(reader.opened for reader in readers) == opened


def test_rows_that_overflow_at_the_end_of_a_file_come_before_the_next_file():
    big = "x" * 600
    readers = [FakeReader(rows(a=[big, big])), FakeReader(rows(a=["y"]))]
    batches = list(scan(*readers, limits=BatchLimits(vector_bytes=1000)).batches())
    assert [batch.num_rows for batch in batches] == [1, 1, 1]


def test_no_column_at_all_still_counts_rows():
    batches = list(scan(FakeReader(rows(a=[1, 2])), FakeReader(rows(b=[3])), columns=[]).batches())
    assert [(batch.num_rows, batch.num_columns) for batch in batches] == [(2, 0), (1, 0)]


def test_columns_are_moved_not_copied():
    batch = rows(a=[1, 2, 3], b=["x", "y", "z"])
    (out,) = scan(FakeReader(batch), columns=["b", "a"]).batches()
    assert out.column(1).buffers()[1].address == batch.column(0).buffers()[1].address
