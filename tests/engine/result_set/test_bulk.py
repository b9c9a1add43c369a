"""Batches from several tables, as Drill's copier makes them, without its selection vectors."""

from typing import Any

import pyarrow as pa
import pytest

from engine.errors import SchemaConflictError
from engine.limits import BatchLimits
from engine.result_set.sizes import batch_sizes

N = pa.field("n", pa.int64())


def make_tables(*sizes: int) -> list[pa.Table]:
    """Tables of these sizes whose rows are numbered from 0 on."""
    ends = [sum(sizes[: index + 1]) for index in range(len(sizes))]
    return [pa.table({"n": range(end - size, end)}) for size, end in zip(sizes, ends, strict=True)]


def test_small_tables_become_one_batch(loaders: Any) -> None:
    loader = loaders.of()
    for table in make_tables(1, 2, 0, 3):
        loader.append(table)
    (batch,) = loaders.harvest_all(loader)
    assert batch.column(0).to_pylist() == list(range(6))


@pytest.mark.parametrize("limits", [{"batch_bytes": 5000}, {"vector_bytes": 4000}])
def test_nulls_that_share_one_buffer_stay_within_the_limits(loaders: Any, limits: dict[str, int]) -> None:
    """Arrow uses one buffer for the values and the validity of nulls, and for all columns of them."""
    loader = loaders.of(**limits)
    schema = pa.schema([pa.field(name, pa.int64()) for name in "abc"])
    part = pa.table([pa.array(range(10)), pa.nulls(10, pa.int64()), pa.nulls(10, pa.int64())], schema)
    batches = []
    for _ in range(100):
        while loader.is_full:
            batches.append(loader.harvest())
            loader.start_batch()
        loader.append(part)
    batches += loaders.harvest_all(loader)
    assert sum(batch.num_rows for batch in batches) == 1000
    for batch in batches:
        assert batch_sizes(batch, 0, batch.num_rows).excess(BatchLimits(**limits)) is None


def test_column_that_comes_without_rows_and_does_not_fit_is_hidden(loaders: Any) -> None:
    loader = loaders.of(batch_bytes=9000)
    loader.append(pa.table({"a": pa.array(range(1000), pa.int64())}))
    loader.append(pa.table({"a": pa.array([], pa.int64()), "b": pa.array([], pa.int64())}))
    batch = loader.harvest()
    assert batch.schema.names == ["a"]
    assert batch_sizes(batch, 0, batch.num_rows).total_bytes <= 9000


def test_tables_are_cut_where_batch_is_full(loaders: Any) -> None:
    loader = loaders.of(rows=4)
    batches = []
    for table in make_tables(3, 3, 9):
        loader.append(table)
        while loader.is_full:
            batches.append(loader.harvest().column(0).to_pylist())
            loader.start_batch()
    batches += [batch.column(0).to_pylist() for batch in loaders.harvest_all(loader)]
    assert batches == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11], [12, 13, 14]]


def test_slices_and_filtered_tables_are_appended(loaders: Any) -> None:
    (table,) = make_tables(6)
    loader = loaders.of()
    loader.append(table.slice(4))
    loader.append(table.filter(pa.array([True, False] * 3)))
    assert loader.harvest().column(0).to_pylist() == [4, 5, 0, 2, 4]


def test_columns_missing_in_either_table_are_filled(loaders: Any) -> None:
    loader = loaders.of()
    for table in (pa.table({"a": [1]}), pa.table({"b": ["x"], "a": [2]}), pa.table({"b": ["y"]})):
        loader.append(table)
    assert loader.harvest().to_pylist() == [{"a": 1, "b": None}, {"a": 2, "b": "x"}, {"a": None, "b": "y"}]
    assert loader.schema_version == 1


def test_table_of_other_type_is_refused_and_earlier_rows_stay(loaders: Any) -> None:
    loader = loaders.of(N)
    loader.append(pa.table({"n": [1]}))
    with pytest.raises(SchemaConflictError, match="column 'n' is array"):
        loader.append(pa.table({"n": [[2]]}))
    assert loader.harvest().to_pylist() == [{"n": 1}]


@pytest.mark.parametrize("harvested", [0, 1, 2])
def test_close_discards_unharvested_rows(loaders: Any, harvested: int) -> None:
    loader = loaders.of(rows=2)
    loader.append(make_tables(5)[0])
    rows = []
    for _ in range(harvested):
        rows += loader.harvest().column(0).to_pylist()
        loader.start_batch()
    loader.close()
    loader.close()
    assert rows == list(range(2 * harvested))
    assert not loader.has_look_ahead
