"""The protocol of a loader: the order of calls, the lookup of columns, and row limits."""

from typing import Any

import pyarrow as pa
import pytest

from engine.errors import ColumnError, DuplicateColumnError, LoaderStateError
from engine.limits import BatchLimits
from engine.result_set.loader import ResultSetLoader

N = pa.field("n", pa.int32())


def test_start_row_without_batch_is_refused() -> None:
    loader = ResultSetLoader()
    with pytest.raises(LoaderStateError, match="start_batch"):
        loader.writer.start_row()


def test_start_batch_in_active_batch_is_refused(loaders: Any) -> None:
    with pytest.raises(LoaderStateError, match="active"):
        loaders.of(N).start_batch()


def test_harvest_without_batch_is_refused() -> None:
    with pytest.raises(LoaderStateError, match="no batch has been started"):
        ResultSetLoader().harvest()


@pytest.mark.parametrize("call", [
    pytest.param(lambda loader: loader.append(pa.table({"n": [1]})), id="append"),
    pytest.param(lambda loader: loader.skip_rows(1), id="skip_rows"),
    pytest.param(lambda loader: loader.writer.save_row(), id="save_row"),
    pytest.param(lambda loader: loader.writer.column("n").set_int(1), id="set_int"),
    pytest.param(lambda loader: loader.writer.column("n").set_null(), id="set_null"),
    pytest.param(lambda loader: loader.writer.column("l").element.set_value([1]), id="element"),
    pytest.param(lambda loader: loader.writer.column("l").save(), id="save"),
])  # fmt: skip
def test_writing_between_batches_is_refused(loaders: Any, call: Any) -> None:
    loader = loaders.of(N, pa.field("l", pa.list_(pa.list_(pa.int8()))), pa.field("m", pa.struct([N])))
    loader.harvest()
    with pytest.raises(LoaderStateError):
        call(loader)


def test_value_outside_row_is_refused_and_changes_nothing(loaders: Any) -> None:
    loader = loaders.of(N, pa.field("m", pa.struct([N])))
    loader.writer.set_row(1, {"n": 2})
    with pytest.raises(LoaderStateError, match="outside a row"):
        loader.writer.column("n").set_int(5)
    with pytest.raises(LoaderStateError, match="outside a row"):
        loader.writer.column("m").column("n").set_int(5)
    assert loader.harvest().to_pylist() == [{"n": 1, "m": {"n": 2}}]


def test_append_inside_row_is_refused(loaders: Any) -> None:
    loader = loaders.of(N)
    loader.writer.start_row()
    with pytest.raises(LoaderStateError, match="being written"):
        loader.append(pa.table({"n": [1]}))


def test_columns_are_found_by_index_and_by_name_in_any_case(loaders: Any) -> None:
    row = loaders.of(pa.field("Name", pa.string()), N).writer
    assert row.column(0) is row.column("NAME") is row.column("name")
    assert row.add_column(pa.field("late", pa.int8())) == 2
    assert row.schema.names == ["Name", "n", "late"]
    with pytest.raises(ColumnError, match="'nobody' was not added"):
        row.column("nobody")


def test_duplicate_column_in_any_case_is_refused(loaders: Any) -> None:
    with pytest.raises(DuplicateColumnError, match="'n' is the same name"):
        loaders.of(N).writer.add_column(pa.field("N", pa.string()))
    with pytest.raises(DuplicateColumnError):
        loaders.of().append(pa.table({"a": [1], "A": [2]}))


def test_writers_are_the_same_objects_in_all_batches(loaders: Any) -> None:
    loader = loaders.of(N, pa.field("m", pa.struct([pa.field("l", pa.list_(pa.int8()))])), rows=1)
    row, column = loader.writer, loader.writer.column("n")
    element = row.column("m").column("l").element
    for number in range(3):
        row.start_row()
        column.set_int(number)
        element.set_int(number)
        row.save_row()
        assert loader.harvest().to_pylist() == [{"n": number, "m": {"l": [number]}}]
        loader.start_batch()
    assert loader.writer is row
    assert row.column("n") is column
    assert row.column("m").column("l").element is element


def test_set_row_with_wrong_number_of_values_is_refused(loaders: Any) -> None:
    with pytest.raises(LoaderStateError, match="2 values was written to 1 columns"):
        loaders.of(N).writer.set_row(1, 2)


def test_value_written_again_replaces_the_first(loaders: Any) -> None:
    loader = loaders.of(N, pa.field("s", pa.string()), pa.field("l", pa.list_(pa.int8())))
    row = loader.writer
    row.start_row()
    for number, text, array in [(1, "one", [1, 1]), (None, None, None), (2, "two", [2])]:
        row.column("n").set_value(number)
        row.column("s").set_value(text)
        row.column("l").set_value(array)
    row.save_row()
    assert loader.harvest().to_pylist() == [{"n": 2, "s": "two", "l": [2]}]


def test_row_limit_ends_batch_without_look_ahead(loaders: Any) -> None:
    loader = loaders.of(N, rows=2)
    loader.writer.set_row(1)
    assert not loader.is_full
    loader.writer.set_row(2)
    assert loader.is_full
    assert not loader.has_look_ahead
    assert loader.harvest().num_rows == 2


@pytest.mark.parametrize(("requested", "rows"), [(None, 4), (2, 2), (9, 4), (0, 1), (-3, 1)])
def test_start_batch_may_lower_the_row_limit(loaders: Any, requested: int | None, rows: int) -> None:
    loader = loaders.of(N, rows=4)
    loader.harvest()
    loader.start_batch(requested)
    while not loader.is_full:
        loader.writer.set_row(1)
    assert loader.harvest().num_rows == rows


def test_batch_never_has_more_than_65536_rows(loaders: Any) -> None:
    loader = loaders.of(N, rows=1_000_000)
    loader.append(pa.table({"n": range(70_000)}))
    assert [batch.num_rows for batch in loaders.harvest_all(loader)] == [65_536, 70_000 - 65_536]


def test_scan_limit_zero_gives_one_empty_batch(loaders: Any) -> None:
    loader = loaders.of(N, scan_rows=0)
    assert loader.is_full
    batch = loader.harvest()
    assert (batch.num_rows, batch.schema.names) == (0, ["n"])
    assert loader.is_at_scan_limit
    with pytest.raises(LoaderStateError, match="all 0 rows"):
        loader.start_batch()


def test_scan_limit_one_gives_one_row(loaders: Any) -> None:
    loader = loaders.of(N, scan_rows=1)
    assert not loader.is_at_scan_limit
    loader.writer.set_row(1)
    assert loader.is_full
    assert loader.is_at_scan_limit
    assert loader.harvest().num_rows == 1


@pytest.mark.parametrize("is_bulk", [True, False])
def test_scan_limit_covers_all_batches(loaders: Any, is_bulk: bool) -> None:
    loader = loaders.of(N, scan_rows=100, rows=75)
    if is_bulk:
        loader.append(pa.table({"n": range(1000)}))
    sizes = []
    while True:
        while not loader.is_full:
            loader.writer.set_row(1)
        sizes.append(loader.harvest().num_rows)
        if loader.is_at_scan_limit:
            break
        loader.start_batch()
    assert sizes == [75, 25]
    assert not loader.has_look_ahead
    assert loader.total_rows == 100
    with pytest.raises(LoaderStateError, match="all 100 rows"):
        loader.start_batch()


def test_close_without_harvest_frees_all_memory() -> None:
    loader = ResultSetLoader(limits=BatchLimits(rows=10))
    loader.start_batch()
    before = pa.total_allocated_bytes()
    loader.append(pa.table({"s": ["x" * 10_000] * 100}))
    assert pa.total_allocated_bytes() > before
    loader.close()
    loader.close()
    assert pa.total_allocated_bytes() == before


def test_unsaved_row_leaves_nothing_behind(loaders: Any, write: Any) -> None:
    loader = loaders.of(N, pa.field("s", pa.string()), pa.field("m", pa.struct([pa.field("l", pa.list_(N.type))])))
    loader.writer.set_row(1, "one", {"l": [1]})
    loader.writer.start_row()
    write.row(loader, {"n": 9, "s": "nine", "m": {"l": [9, 9]}})
    loader.writer.start_row()
    loader.writer.save_row()
    loader.writer.start_row()
    write.row(loader, {"n": 9, "s": "nine", "m": {"l": [9, 9]}})
    assert loader.harvest().to_pylist() == [
        {"n": 1, "s": "one", "m": {"l": [1]}},
        {"n": None, "s": None, "m": None},
    ]
    loader.start_batch()
    loader.writer.set_row(2, "two", {"l": [2]})
    assert loader.harvest().to_pylist() == [{"n": 2, "s": "two", "m": {"l": [2]}}]
