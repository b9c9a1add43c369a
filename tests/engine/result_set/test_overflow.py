"""Overflow: columns a to h of [result-set-impl "Detailed Use Cases"], arrays, and abandoned rows."""

from typing import Any

import pyarrow as pa
import pytest

from engine.errors import LoaderStateError, ValueTooLargeError
from engine.result_set.loader import ResultSetLoader

VECTOR_BYTES = 100
BIG = "b" * 40


@pytest.fixture
def overflow_batches(loaders: Any) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The batches of the table in [result-set-impl "Detailed Use Cases"]: ``b`` overflows in row n."""
    loader = loaders.of(*(pa.field(name, pa.string()) for name in "abcdef"), vector_bytes=VECTOR_BYTES)
    row = loader.writer
    row.set_row("a0", BIG, "c0", "d0", "e0", "f0")
    row.set_row("a1", BIG, "c1", "d1", None, None)
    row.start_row()
    row.column("a").set_string("a2")
    row.column("b").set_string(BIG)
    row.column("c").set_string("c2")
    row.column("e").set_string("e2")
    row.add_column(pa.field("g", pa.string()))
    row.column("g").set_string("g2")
    row.add_column(pa.field("h", pa.string()))
    row.save_row()
    first, second = loaders.harvest_all(loader)
    return first.to_pylist(), second.to_pylist()


@pytest.fixture
def nearly_full(loaders: Any) -> ResultSetLoader:
    """A loader of one text column, which has no room for a third big value."""
    loader: ResultSetLoader = loaders.of(pa.field("b", pa.string()), vector_bytes=VECTOR_BYTES)
    for _ in range(2):
        loader.writer.set_row(BIG)
    return loader


@pytest.mark.parametrize(("column", "first", "second"), [
    pytest.param("a", ["a0", "a1"], ["a2"], id="a_written_before_overflow"),
    pytest.param("b", [BIG, BIG], [BIG], id="b_causes_overflow"),
    pytest.param("c", ["c0", "c1"], ["c2"], id="c_written_after_overflow"),
    pytest.param("d", ["d0", "d1"], [None], id="d_not_written_in_overflow_row"),
    pytest.param("e", ["e0", None], ["e2"], id="e_null_before_and_written_after_overflow"),
    pytest.param("f", ["f0", None], [None], id="f_null_at_end_and_in_overflow_row"),
])  # fmt: skip
def test_overflow_splits_each_column_at_its_row(
    overflow_batches: Any, column: str, first: list[str], second: list[str]
) -> None:
    assert [row[column] for row in overflow_batches[0]] == first
    assert [row[column] for row in overflow_batches[1]] == second


def test_case_g_column_added_and_written_in_overflow_row_moves_with_it(overflow_batches: Any) -> None:
    assert "g" not in overflow_batches[0][0]
    assert [row["g"] for row in overflow_batches[1]] == ["g2"]


def test_case_h_column_added_in_overflow_row_is_null_in_next_batch(overflow_batches: Any) -> None:
    assert "h" not in overflow_batches[0][0]
    assert [row["h"] for row in overflow_batches[1]] == [None]


def test_schema_version_grows_when_new_column_is_harvested(nearly_full: ResultSetLoader) -> None:
    nearly_full.writer.start_row()
    nearly_full.writer.column("b").set_string(BIG)
    nearly_full.writer.add_column(pa.field("new", pa.int32()))
    nearly_full.writer.save_row()
    assert nearly_full.schema.names == ["b"]
    nearly_full.harvest()
    assert nearly_full.schema_version == 1
    nearly_full.start_batch()
    assert nearly_full.schema.names == ["b", "new"]
    nearly_full.harvest()
    assert nearly_full.schema_version == 2


def test_overflow_shows_only_as_full_batch(loaders: Any) -> None:
    loader = loaders.of(pa.field("b", pa.string()), vector_bytes=VECTOR_BYTES)
    for _ in range(3):
        assert not loader.is_full
        loader.writer.set_row(BIG)
    assert loader.is_full
    assert loader.has_look_ahead
    assert loader.row_count == 2
    with pytest.raises(LoaderStateError, match="full"):
        loader.writer.start_row()
    assert [batch.num_rows for batch in loaders.harvest_all(loader)] == [2, 1]
    assert loader.total_rows == 3


def test_batch_bytes_limits_all_vectors_together(loaders: Any) -> None:
    loader = loaders.of(pa.field("a", pa.string()), pa.field("b", pa.string()), vector_bytes=10_000, batch_bytes=250)
    while not loader.is_full:
        loader.writer.set_row("x" * 40, "y" * 40)
    assert [batch.num_rows for batch in loaders.harvest_all(loader)] == [2, 1]


def test_abandoned_overflow_row_leaves_room(nearly_full: ResultSetLoader) -> None:
    nearly_full.writer.start_row()
    nearly_full.writer.column("b").set_string(BIG)
    nearly_full.writer.start_row()
    nearly_full.writer.column("b").set_string("small")
    nearly_full.writer.save_row()
    assert not nearly_full.is_full
    assert nearly_full.harvest().column(0).to_pylist() == [BIG, BIG, "small"]


def test_unsaved_overflow_row_is_in_no_batch(nearly_full: ResultSetLoader) -> None:
    nearly_full.writer.start_row()
    nearly_full.writer.column("b").set_string(BIG)
    assert nearly_full.harvest().num_rows == 2
    assert not nearly_full.has_look_ahead
    nearly_full.start_batch()
    assert nearly_full.row_count == 0


def test_rewriting_a_large_value_takes_no_space(loaders: Any) -> None:
    loader = loaders.of(pa.field("b", pa.string()), vector_bytes=VECTOR_BYTES)
    for _ in range(2):
        loader.writer.start_row()
        for _ in range(100):
            loader.writer.column("b").set_string("x" * 90)
        loader.writer.column("b").set_string(BIG)
        loader.writer.save_row()
    assert not loader.is_full
    batch = loader.harvest()
    assert batch.column(0).to_pylist() == [BIG, BIG]
    assert batch.column(0).buffers()[2].size == 2 * len(BIG)


def test_loader_continues_after_too_large_value(loaders: Any) -> None:
    loader = loaders.of(pa.field("b", pa.string()), vector_bytes=VECTOR_BYTES)
    loader.writer.set_row(BIG)
    loader.writer.start_row()
    with pytest.raises(ValueTooLargeError, match="column 'b' has a value of 101 bytes"):
        loader.writer.column("b").set_string("x" * 101)
    loader.writer.start_row()
    loader.writer.column("b").set_string("next")
    loader.writer.save_row()
    assert loader.harvest().column(0).to_pylist() == [BIG, "next"]


@pytest.mark.parametrize("rows_before", [0, 1])
def test_too_large_array_is_refused_early(loaders: Any, rows_before: int) -> None:
    loader = loaders.of(pa.field("n", pa.list_(pa.int64())), vector_bytes=VECTOR_BYTES)
    for _ in range(rows_before):
        loader.writer.set_row([1])
    loader.writer.start_row()
    element = loader.writer.column("n").element
    with pytest.raises(ValueTooLargeError, match="column 'n'"):
        for value in range(1_000_000):
            element.set_int(value)
    assert loader.harvest().num_rows == rows_before


def test_array_of_texts_too_large_together_is_refused(loaders: Any) -> None:
    loader = loaders.of(pa.field("t", pa.list_(pa.string())), vector_bytes=VECTOR_BYTES)
    loader.writer.set_row(["x" * 50])
    loader.writer.start_row()
    with pytest.raises(ValueTooLargeError):
        for _ in range(5):
            loader.writer.column("t").element.set_string("y" * 45)
        loader.writer.save_row()


def test_too_large_appended_row_is_refused(loaders: Any) -> None:
    loader = loaders.of(vector_bytes=VECTOR_BYTES)
    with pytest.raises(ValueTooLargeError, match="column 'b'"):
        loader.append(pa.table({"b": ["x" * 101]}))


def test_close_discards_overflow_row(loaders: Any) -> None:
    loader = loaders.of(pa.field("b", pa.string()), vector_bytes=VECTOR_BYTES)
    for _ in range(3):
        loader.writer.set_row(BIG)
    loader.close()
    assert not loader.has_look_ahead
    with pytest.raises(LoaderStateError, match="closed"):
        loader.start_batch()


def test_arrays_of_overflow_row_move_with_it(loaders: Any) -> None:
    loader = loaders.of(
        pa.field("before", pa.list_(pa.int32())),
        pa.field("b", pa.string()),
        pa.field("after", pa.list_(pa.string())),
        pa.field("empty", pa.list_(pa.int32()), nullable=False),
        vector_bytes=VECTOR_BYTES,
    )
    rows = [([1, 2, 3], BIG, ["a", "b"], []), ([4], BIG, [], [7]), ([5, 6], BIG, ["c", None], [])]
    for row in rows:
        loader.writer.set_row(*row)
    first, second = loaders.harvest_all(loader)
    assert [tuple(row.values()) for row in first.to_pylist()] == rows[:2]
    assert [tuple(row.values()) for row in second.to_pylist()] == rows[2:]
    assert second.column("before").offsets.to_pylist() == [0, 2]


def test_array_that_overflows_moves_whole(loaders: Any, write: Any) -> None:
    loader = loaders.of(pa.field("t", pa.list_(pa.string())), vector_bytes=VECTOR_BYTES)
    rows = [["x" * 30, "y" * 30], ["p" * 20, "q" * 30, "r"]]
    for row in rows:
        write.saved_row(loader, {"t": row})
    assert [batch.column(0).to_pylist() for batch in loaders.harvest_all(loader)] == [rows[:1], rows[1:]]


def test_arrays_omitted_before_overflow_stay_empty(loaders: Any, write: Any) -> None:
    loader = loaders.of(
        pa.field("n", pa.list_(pa.int32()), nullable=False), pa.field("b", pa.string()), vector_bytes=VECTOR_BYTES
    )
    for row in [{"n": [1], "b": BIG}, {"b": BIG}, {"b": BIG}]:
        write.saved_row(loader, row)
    loader.harvest()
    loader.start_batch()
    loader.writer.set_row([2, 3], "x")
    assert loader.harvest().column("n").to_pylist() == [[], [2, 3]]


def test_arrays_of_maps_of_arrays_continue_after_overflow(loaders: Any, write: Any) -> None:
    inner = pa.struct([pa.field("k", pa.string()), pa.field("n", pa.list_(pa.list_(pa.int16())))])
    loader = loaders.of(pa.field("m", pa.list_(inner)), vector_bytes=VECTOR_BYTES)
    rows = [
        [{"k": "x" * 30, "n": [[1, 2], [], None, [3]]}, None, {"k": None, "n": None}],
        [{"k": "y" * 30, "n": []}],
        [{"k": "z" * 30, "n": [[4], [5, 6]]}, {"k": "z" * 30, "n": [[7]]}],
        [{"k": "w", "n": [[8]]}],
    ]
    shown = []
    for row in rows:
        if loader.is_full:
            shown.append(loader.harvest().column(0).to_pylist())
            loader.start_batch()
        write.saved_row(loader, {"m": row})
    shown += [batch.column(0).to_pylist() for batch in loaders.harvest_all(loader)]
    assert shown == [rows[:2], rows[2:]]


def test_dict_entries_overflow_with_their_row(loaders: Any) -> None:
    loader = loaders.of(pa.field("d", pa.map_(pa.string(), pa.binary())), vector_bytes=VECTOR_BYTES)
    rows = [[("k" * 20, b"1" * 45), ("l", None)], [("m", b"2" * 45)], [("n", b"3" * 45), ("o", b"")]]
    for row in rows:
        loader.writer.set_row(row)
    assert [batch.column(0).to_pylist() for batch in loaders.harvest_all(loader)] == [rows[:2], rows[2:]]


def test_member_added_in_overflow_row_moves_with_it(loaders: Any) -> None:
    loader = loaders.of(pa.field("m", pa.struct([pa.field("b", pa.string())])), vector_bytes=VECTOR_BYTES)
    member = loader.writer.column("m")
    for _ in range(3):
        loader.writer.start_row()
        member.column("b").set_string(BIG)
        if loader.row_count == 2:
            member.column(member.add_column(pa.field("late", pa.int8()))).set_int(5)
        loader.writer.save_row()
    first, second = loaders.harvest_all(loader)
    assert first.column(0).to_pylist() == [{"b": BIG}, {"b": BIG}]
    assert second.column(0).to_pylist() == [{"b": BIG, "late": 5}]


def test_appended_bytes_overflow_as_one_value(loaders: Any) -> None:
    loader = loaders.of(pa.field("a", pa.int32()), pa.field("b", pa.binary()), vector_bytes=VECTOR_BYTES)
    for number in range(3):
        loader.writer.start_row()
        loader.writer.column("a").set_int(number)
        for _ in range(4):
            loader.writer.column("b").append_bytes(b"0123456789")
        loader.writer.save_row()
    first, second = loaders.harvest_all(loader)
    assert first.column("b").to_pylist() == [b"0123456789" * 4] * 2
    assert second.to_pylist() == [{"a": 2, "b": b"0123456789" * 4}]


def test_column_whose_backfill_does_not_fit_waits(loaders: Any) -> None:
    default = {b"lodge.default": b"x" * 60}
    loader = loaders.of(pa.field("a", pa.int8()), vector_bytes=VECTOR_BYTES)
    loader.writer.set_row(1)
    loader.writer.set_row(2)
    loader.writer.start_row()
    loader.writer.column("a").set_int(3)
    loader.writer.add_column(pa.field("s", pa.string(), nullable=False, metadata=default))
    loader.writer.save_row()
    first, second = loaders.harvest_all(loader)
    assert first.to_pylist() == [{"a": 1}, {"a": 2}]
    assert second.to_pylist() == [{"a": 3, "s": "x" * 60}]


def test_harvest_copies_only_overflow_row(loaders: Any) -> None:
    loader: ResultSetLoader = loaders.of(pa.field("a", pa.int64()), pa.field("b", pa.string()), vector_bytes=1000)
    while not loader.is_full:
        loader.writer.set_row(7, BIG)
    before = pa.total_allocated_bytes()
    batch = loader.harvest()
    assert pa.total_allocated_bytes() == before
    assert batch.column("b").buffers()[2].size == batch.num_rows * len(BIG)


def test_overflow_keeps_nulls_in_both_batches(loaders: Any) -> None:
    loader = loaders.of(
        pa.field("n", pa.int32()), pa.field("b", pa.string()), pa.field("after", pa.int32()), vector_bytes=VECTOR_BYTES
    )
    for number in range(3):
        loader.writer.set_row(None if number != 1 else 1, BIG, None if number else 0)
    first, second = loaders.harvest_all(loader)
    assert [(row["n"], row["after"]) for row in first.to_pylist()] == [(None, 0), (1, None)]
    assert [(row["n"], row["after"]) for row in second.to_pylist()] == [(None, None)]


def test_arrays_of_dicts_overflow_with_their_row(loaders: Any) -> None:
    loader = loaders.of(pa.field("l", pa.list_(pa.map_(pa.string(), pa.int8()))), vector_bytes=VECTOR_BYTES)
    rows = [[[("k" * 60, 1)], []], [None, [("l", None), ("m" * 60, 3)]]]
    for row in rows:
        loader.writer.set_row(row)
    shown = [batch.column(0).to_pylist() for batch in loaders.harvest_all(loader)]
    assert shown == [rows[:1], rows[1:]]
