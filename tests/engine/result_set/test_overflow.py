"""The overflow row: cases a to h of seed 003, arrays, and rows that are given up."""

from typing import Any

import pyarrow as pa
import pytest

from engine.errors import LoaderStateError, ValueTooLargeError
from engine.result_set.loader import ResultSetLoader

VECTOR_BYTES = 100
BIG = "b" * 40


@pytest.fixture
def halves(loaders: Any) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The table of seed 003: what the batch holds, and what the next one. The value of ``b`` overflows in row n."""
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
    first, second = loaders.rest(loader)
    return first.to_pylist(), second.to_pylist()


@pytest.mark.parametrize(("column", "main", "look_ahead"), [
    pytest.param("a", ["a0", "a1"], ["a2"], id="a_written_before_the_overflow_is_moved"),
    pytest.param("b", [BIG, BIG], [BIG], id="b_whose_value_overflows_starts_the_next_batch"),
    pytest.param("c", ["c0", "c1"], ["c2"], id="c_written_after_the_overflow_goes_to_the_next_batch"),
    pytest.param("d", ["d0", "d1"], [None], id="d_not_written_in_the_overflow_row_is_empty_there"),
    pytest.param("e", ["e0", None], ["e2"], id="e_empty_before_and_written_after_keeps_its_hole"),
    pytest.param("f", ["f0", None], [None], id="f_empty_at_the_end_and_in_the_overflow_row_is_filled_in_both"),
])  # fmt: skip
def test_a_column_that_was_there_before_the_overflow(
    halves: Any, column: str, main: list[str], look_ahead: list[str]
) -> None:
    assert [row[column] for row in halves[0]] == main
    assert [row[column] for row in halves[1]] == look_ahead


def test_case_g_a_column_added_and_written_in_the_overflow_row_is_in_the_next_batch(halves: Any) -> None:
    assert "g" not in halves[0][0]
    assert [row["g"] for row in halves[1]] == ["g2"]


def test_case_h_a_column_added_and_not_written_in_the_overflow_row_is_empty_in_the_next_batch(halves: Any) -> None:
    assert "h" not in halves[0][0]
    assert [row["h"] for row in halves[1]] == [None]


def test_a_column_of_the_overflow_row_counts_as_a_new_schema_only_when_it_is_shown(loaders: Any) -> None:
    loader = loaders.of(pa.field("b", pa.string()), vector_bytes=VECTOR_BYTES)
    for _ in range(2):
        loader.writer.set_row(BIG)
    loader.writer.start_row()
    loader.writer.column("b").set_string(BIG)
    loader.writer.add_column(pa.field("new", pa.int32()))
    loader.writer.save_row()
    assert loader.schema.names == ["b"]
    loader.harvest()
    assert loader.schema_version == 1
    loader.start_batch()
    assert loader.schema.names == ["b", "new"]
    loader.harvest()
    assert loader.schema_version == 2


def test_the_client_writes_on_and_sees_only_that_the_batch_is_full(loaders: Any) -> None:
    loader = loaders.of(pa.field("b", pa.string()), vector_bytes=VECTOR_BYTES)
    for _ in range(3):
        assert not loader.is_full
        loader.writer.set_row(BIG)
    assert loader.is_full
    assert loader.has_look_ahead
    assert loader.row_count == 2
    with pytest.raises(LoaderStateError, match="full"):
        loader.writer.start_row()
    assert [batch.num_rows for batch in loaders.rest(loader)] == [2, 1]
    assert loader.total_rows == 3


def test_all_vectors_together_have_a_limit_of_their_own(loaders: Any) -> None:
    loader = loaders.of(pa.field("a", pa.string()), pa.field("b", pa.string()), vector_bytes=10_000, batch_bytes=250)
    while not loader.is_full:
        loader.writer.set_row("x" * 40, "y" * 40)
    assert [batch.num_rows for batch in loaders.rest(loader)] == [2, 1]


def test_a_row_that_overflows_and_is_not_saved_leaves_room_for_another(loaders: Any) -> None:
    loader = loaders.of(pa.field("b", pa.string()), vector_bytes=VECTOR_BYTES)
    for _ in range(2):
        loader.writer.set_row(BIG)
    loader.writer.start_row()
    loader.writer.column("b").set_string(BIG)
    loader.writer.start_row()
    loader.writer.column("b").set_string("small")
    loader.writer.save_row()
    assert not loader.is_full
    assert loader.harvest().column(0).to_pylist() == [BIG, BIG, "small"]


def test_an_overflow_row_that_is_not_saved_is_in_no_batch(loaders: Any) -> None:
    loader = loaders.of(pa.field("b", pa.string()), vector_bytes=VECTOR_BYTES)
    for _ in range(2):
        loader.writer.set_row(BIG)
    loader.writer.start_row()
    loader.writer.column("b").set_string(BIG)
    assert loader.harvest().num_rows == 2
    assert not loader.has_look_ahead
    loader.start_batch()
    assert loader.row_count == 0


def test_writing_a_large_value_again_and_again_takes_no_space(loaders: Any) -> None:
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


def test_a_value_that_is_larger_than_a_vector_is_refused_and_the_loader_goes_on(loaders: Any) -> None:
    loader = loaders.of(pa.field("b", pa.string()), vector_bytes=VECTOR_BYTES)
    loader.writer.set_row(BIG)
    loader.writer.start_row()
    with pytest.raises(ValueTooLargeError, match="column 'b' has one value of 101 bytes"):
        loader.writer.column("b").set_string("x" * 101)
    loader.writer.start_row()
    loader.writer.column("b").set_string("next")
    loader.writer.save_row()
    assert loader.harvest().column(0).to_pylist() == [BIG, "next"]


@pytest.mark.parametrize("rows_before", [0, 1])
def test_one_array_that_is_larger_than_a_vector_is_refused_before_it_grows(loaders: Any, rows_before: int) -> None:
    loader = loaders.of(pa.field("n", pa.list_(pa.int64())), vector_bytes=VECTOR_BYTES)
    for _ in range(rows_before):
        loader.writer.set_row([1])
    loader.writer.start_row()
    element = loader.writer.column("n").element
    with pytest.raises(ValueTooLargeError, match="column 'n'"):
        for value in range(1_000_000):
            element.set_int(value)
    assert loader.harvest().num_rows == rows_before


def test_one_array_of_many_texts_is_refused_when_they_are_together_too_large(loaders: Any) -> None:
    loader = loaders.of(pa.field("t", pa.list_(pa.string())), vector_bytes=VECTOR_BYTES)
    loader.writer.set_row(["x" * 50])
    loader.writer.start_row()
    with pytest.raises(ValueTooLargeError):
        for _ in range(5):
            loader.writer.column("t").element.set_string("y" * 45)
        loader.writer.save_row()


def test_one_appended_row_that_is_too_large_is_refused(loaders: Any) -> None:
    loader = loaders.of(vector_bytes=VECTOR_BYTES)
    with pytest.raises(ValueTooLargeError, match="column 'b'"):
        loader.append(pa.table({"b": ["x" * 101]}))


def test_closing_with_a_row_that_waits_gives_it_up(loaders: Any) -> None:
    loader = loaders.of(pa.field("b", pa.string()), vector_bytes=VECTOR_BYTES)
    for _ in range(3):
        loader.writer.set_row(BIG)
    loader.close()
    assert not loader.has_look_ahead
    with pytest.raises(LoaderStateError, match="closed"):
        loader.start_batch()


def test_arrays_before_and_after_the_overflowing_column_move_with_their_row(loaders: Any) -> None:
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
    first, second = loaders.rest(loader)
    assert [tuple(row.values()) for row in first.to_pylist()] == rows[:2]
    assert [tuple(row.values()) for row in second.to_pylist()] == rows[2:]
    assert second.column("before").offsets.to_pylist() == [0, 2]


def test_an_array_that_overflows_while_it_is_written_moves_whole(loaders: Any, written: Any) -> None:
    loader = loaders.of(pa.field("t", pa.list_(pa.string())), vector_bytes=VECTOR_BYTES)
    rows = [["x" * 30, "y" * 30], ["p" * 20, "q" * 30, "r"]]
    for row in rows:
        loader.writer.start_row()
        written.row(loader, {"t": row})
        loader.writer.save_row()
    assert [batch.column(0).to_pylist() for batch in loaders.rest(loader)] == [rows[:1], rows[1:]]


def test_arrays_that_were_left_out_before_an_overflow_are_empty_and_nothing_shifts(loaders: Any, written: Any) -> None:
    loader = loaders.of(
        pa.field("n", pa.list_(pa.int32()), nullable=False), pa.field("b", pa.string()), vector_bytes=VECTOR_BYTES
    )
    for row in [{"n": [1], "b": BIG}, {"b": BIG}, {"b": BIG}]:
        loader.writer.start_row()
        written.row(loader, row)
        loader.writer.save_row()
    loader.harvest()
    loader.start_batch()
    loader.writer.set_row([2, 3], "x")
    assert loader.harvest().column("n").to_pylist() == [[], [2, 3]]


def test_arrays_of_maps_of_arrays_overflow_and_go_on_in_the_next_batch(loaders: Any, written: Any) -> None:
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
        loader.writer.start_row()
        written.row(loader, {"m": row})
        loader.writer.save_row()
    shown += [batch.column(0).to_pylist() for batch in loaders.rest(loader)]
    assert shown == [rows[:2], rows[2:]]


def test_keys_and_values_of_a_dict_overflow_with_their_row(loaders: Any) -> None:
    loader = loaders.of(pa.field("d", pa.map_(pa.string(), pa.binary())), vector_bytes=VECTOR_BYTES)
    rows = [[("k" * 20, b"1" * 45), ("l", None)], [("m", b"2" * 45)], [("n", b"3" * 45), ("o", b"")]]
    for row in rows:
        loader.writer.set_row(row)
    assert [batch.column(0).to_pylist() for batch in loaders.rest(loader)] == [rows[:2], rows[2:]]


def test_a_member_added_in_the_overflow_row_is_in_the_next_batch(loaders: Any) -> None:
    loader = loaders.of(pa.field("m", pa.struct([pa.field("b", pa.string())])), vector_bytes=VECTOR_BYTES)
    member = loader.writer.column("m")
    for _ in range(3):
        loader.writer.start_row()
        member.column("b").set_string(BIG)
        if loader.row_count == 2:
            member.column(member.add_column(pa.field("late", pa.int8()))).set_int(5)
        loader.writer.save_row()
    first, second = loaders.rest(loader)
    assert first.column(0).to_pylist() == [{"b": BIG}, {"b": BIG}]
    assert second.column(0).to_pylist() == [{"b": BIG, "late": 5}]


def test_bytes_that_are_appended_piece_by_piece_overflow_as_one_value(loaders: Any) -> None:
    loader = loaders.of(pa.field("a", pa.int32()), pa.field("b", pa.binary()), vector_bytes=VECTOR_BYTES)
    for number in range(3):
        loader.writer.start_row()
        loader.writer.column("a").set_int(number)
        for _ in range(4):
            loader.writer.column("b").append_bytes(b"0123456789")
        loader.writer.save_row()
    first, second = loaders.rest(loader)
    assert first.column("b").to_pylist() == [b"0123456789" * 4] * 2
    assert second.to_pylist() == [{"a": 2, "b": b"0123456789" * 4}]


def test_a_column_whose_back_fill_does_not_fit_waits_for_the_next_batch(loaders: Any) -> None:
    default = {b"lodge.default": b"x" * 60}
    loader = loaders.of(pa.field("a", pa.int8()), vector_bytes=VECTOR_BYTES)
    loader.writer.set_row(1)
    loader.writer.set_row(2)
    loader.writer.start_row()
    loader.writer.column("a").set_int(3)
    loader.writer.add_column(pa.field("s", pa.string(), nullable=False, metadata=default))
    loader.writer.save_row()
    first, second = loaders.rest(loader)
    assert first.to_pylist() == [{"a": 1}, {"a": 2}]
    assert second.to_pylist() == [{"a": 3, "s": "x" * 60}]


def test_only_the_values_of_the_overflow_row_are_copied(loaders: Any) -> None:
    loader: ResultSetLoader = loaders.of(pa.field("a", pa.int64()), pa.field("b", pa.string()), vector_bytes=1000)
    while not loader.is_full:
        loader.writer.set_row(7, BIG)
    before = pa.total_allocated_bytes()
    batch = loader.harvest()
    assert pa.total_allocated_bytes() == before
    assert batch.column("b").buffers()[2].size == batch.num_rows * len(BIG)


def test_nulls_that_were_written_before_and_after_the_overflow_stay_nulls_in_both_batches(loaders: Any) -> None:
    loader = loaders.of(
        pa.field("n", pa.int32()), pa.field("b", pa.string()), pa.field("after", pa.int32()), vector_bytes=VECTOR_BYTES
    )
    for number in range(3):
        loader.writer.set_row(None if number != 1 else 1, BIG, None if number else 0)
    first, second = loaders.rest(loader)
    assert [(row["n"], row["after"]) for row in first.to_pylist()] == [(None, 0), (1, None)]
    assert [(row["n"], row["after"]) for row in second.to_pylist()] == [(None, None)]


def test_arrays_of_dicts_overflow_with_their_row(loaders: Any) -> None:
    loader = loaders.of(pa.field("l", pa.list_(pa.map_(pa.string(), pa.int8()))), vector_bytes=VECTOR_BYTES)
    rows = [[[("k" * 60, 1)], []], [None, [("l", None), ("m" * 60, 3)]]]
    for row in rows:
        loader.writer.set_row(row)
    shown = [batch.column(0).to_pylist() for batch in loaders.rest(loader)]
    assert shown == [rows[:1], rows[1:]]
