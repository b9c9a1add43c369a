"""Batches put together of arrays that come in pieces: what Drill's copier does, without its selection vectors."""

from typing import Any

import pyarrow as pa
import pytest

from engine.errors import SchemaConflictError

N = pa.field("n", pa.int64())


def pieces(*sizes: int) -> list[pa.Table]:
    """Tables of so many rows that count on from one to the next."""
    ends = [sum(sizes[: index + 1]) for index in range(len(sizes))]
    return [pa.table({"n": range(end - size, end)}) for size, end in zip(sizes, ends, strict=True)]


def test_small_pieces_become_one_batch(loaders: Any) -> None:
    loader = loaders.of()
    for piece in pieces(1, 2, 0, 3):
        loader.append(piece)
    (batch,) = loaders.rest(loader)
    assert batch.column(0).to_pylist() == list(range(6))


def test_pieces_are_cut_where_a_batch_is_full(loaders: Any) -> None:
    loader = loaders.of(rows=4)
    batches = []
    for piece in pieces(3, 3, 9):
        loader.append(piece)
        while loader.is_full:
            batches.append(loader.harvest().column(0).to_pylist())
            loader.start_batch()
    batches += [batch.column(0).to_pylist() for batch in loaders.rest(loader)]
    assert batches == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11], [12, 13, 14]]


def test_selected_rows_of_a_piece_are_a_slice_or_a_filter_of_it(loaders: Any) -> None:
    (piece,) = pieces(6)
    loader = loaders.of()
    loader.append(piece.slice(4))
    loader.append(piece.filter(pa.array([True, False] * 3)))
    assert loader.harvest().column(0).to_pylist() == [4, 5, 0, 2, 4]


def test_a_piece_with_more_or_fewer_columns_fills_the_holes_of_both(loaders: Any) -> None:
    loader = loaders.of()
    for piece in (pa.table({"a": [1]}), pa.table({"b": ["x"], "a": [2]}), pa.table({"b": ["y"]})):
        loader.append(piece)
    assert loader.harvest().to_pylist() == [{"a": 1, "b": None}, {"a": 2, "b": "x"}, {"a": None, "b": "y"}]
    assert loader.schema_version == 1


def test_a_piece_of_another_type_is_refused_and_the_rows_before_it_stay(loaders: Any) -> None:
    loader = loaders.of(N)
    loader.append(pa.table({"n": [1]}))
    with pytest.raises(SchemaConflictError, match="column 'n' is list"):
        loader.append(pa.table({"n": [[2]]}))
    assert loader.harvest().to_pylist() == [{"n": 1}]


@pytest.mark.parametrize("harvested", [0, 1, 2])
def test_closing_at_any_point_gives_up_what_was_not_harvested(loaders: Any, harvested: int) -> None:
    loader = loaders.of(rows=2)
    loader.append(pieces(5)[0])
    rows = []
    for _ in range(harvested):
        rows += loader.harvest().column(0).to_pylist()
        loader.start_batch()
    loader.close()
    loader.close()
    assert rows == list(range(2 * harvested))
    assert not loader.has_look_ahead
