"""Maps, arrays, dicts and nested lists, and columns that are added inside them."""

from typing import Any

import pyarrow as pa
import pytest

from engine.errors import ColumnError, LoaderStateError, ValueConversionError

N = pa.field("n", pa.int32())


def test_two_maps_may_share_member_names(loaders: Any) -> None:
    loader = loaders.of(pa.field("a", pa.struct([N])), pa.field("b", pa.struct([N])))
    loader.writer.set_row({"n": 1}, {"n": 2})
    assert loader.harvest().to_pylist() == [{"a": {"n": 1}, "b": {"n": 2}}]


def test_empty_map_can_be_extended(loaders: Any) -> None:
    loader = loaders.of(pa.field("m", pa.struct([])))
    member = loader.writer.column("m")
    loader.writer.set_row({})
    loader.writer.start_row()
    inner = member.column(member.add_column(pa.field("inner", pa.struct([]))))
    inner.column(inner.add_column(N)).set_int(5)
    loader.writer.save_row()
    assert loader.harvest().to_pylist() == [{"m": {"inner": None}}, {"m": {"inner": {"n": 5}}}]


def test_map_in_array_gets_members_between_elements(loaders: Any) -> None:
    loader = loaders.of(pa.field("l", pa.list_(pa.struct([N]))))
    array = loader.writer.column("l")
    loader.writer.start_row()
    array.element.column("n").set_int(1)
    array.save()
    late = array.element.add_column(pa.field("late", pa.string()))
    array.element.column(late).set_string("x")
    array.save()
    loader.writer.save_row()
    assert loader.harvest().to_pylist() == [{"l": [{"n": 1, "late": None}, {"n": None, "late": "x"}]}]


def test_late_required_member_without_default_is_refused(loaders: Any) -> None:
    loader = loaders.of(pa.field("m", pa.struct([N])))
    loader.writer.set_row({"n": 1})
    with pytest.raises(ColumnError, match=r"column 'm\.d' of type date"):
        loader.writer.column("m").add_column(pa.field("d", pa.date32(), nullable=False))


def test_unwritten_map_is_null(loaders: Any) -> None:
    loader = loaders.of(pa.field("m", pa.struct([N, pa.field("d", pa.date32(), nullable=False)])))
    loader.writer.start_row()
    loader.writer.save_row()
    loader.writer.start_row()
    loader.writer.column("m").column("n").set_null()
    with pytest.raises(ColumnError, match=r"column 'm\.d'"):
        loader.writer.save_row()
    assert loader.harvest().to_pylist() == [{"m": None}]


def test_set_null_discards_members(loaders: Any) -> None:
    loader = loaders.of(pa.field("m", pa.struct([N])))
    loader.writer.start_row()
    loader.writer.column("m").column("n").set_int(1)
    loader.writer.column("m").set_null()
    loader.writer.save_row()
    loader.writer.start_row()
    loader.writer.column("m").set_value({"n": 1})
    loader.writer.column("m").set_value({})
    loader.writer.save_row()
    assert loader.harvest().to_pylist() == [{"m": None}, {"m": {"n": None}}]


def test_unsaved_element_is_not_in_array(loaders: Any) -> None:
    loader = loaders.of(pa.field("l", pa.list_(pa.struct([N]))))
    array = loader.writer.column("l")
    for number in range(2):
        loader.writer.start_row()
        array.element.column("n").set_int(number)
        array.save()
        array.element.column("n").set_int(99)
        loader.writer.save_row()
    assert loader.harvest().to_pylist() == [{"l": [{"n": 0}]}, {"l": [{"n": 1}]}]


def test_saved_unwritten_element_is_null_or_empty(loaders: Any) -> None:
    repeated = pa.field("item", pa.list_(pa.int8()), nullable=False)
    loader = loaders.of(pa.field("m", pa.list_(pa.struct([N]))), pa.field("l", pa.list_(repeated)))
    loader.writer.start_row()
    loader.writer.column("m").save()
    loader.writer.column("l").save()
    loader.writer.save_row()
    assert loader.harvest().to_pylist() == [{"m": [None], "l": [[]]}]


def test_save_is_optional_in_array_of_scalars(loaders: Any) -> None:
    loader = loaders.of(pa.field("l", pa.list_(pa.int8())))
    array = loader.writer.column("l")
    loader.writer.start_row()
    array.element.set_int(1)
    array.save()
    array.element.set_null()
    array.element.set_int(2)
    loader.writer.save_row()
    assert loader.harvest().column(0).to_pylist() == [[1, None, 2]]


def test_array_may_have_more_than_65536_elements(loaders: Any) -> None:
    loader = loaders.of(pa.field("l", pa.list_(pa.int16())))
    loader.writer.set_row(range(-30_000, 30_000))
    loader.writer.set_row(range(20_000))
    assert [len(array) for array in loader.harvest().column(0)] == [60_000, 20_000]


def test_nested_lists_keep_null_and_empty_apart(loaders: Any) -> None:
    loader = loaders.of(pa.field("l", pa.list_(pa.list_(pa.list_(pa.string())))))
    rows = [[[["a", None], []], None, []], None, [], [[None]]]
    for row in rows:
        loader.writer.set_row(row)
    assert loader.harvest().column(0).to_pylist() == rows


def test_list_column_can_be_added_late(loaders: Any) -> None:
    loader = loaders.of(N)
    loader.writer.set_row(1)
    loader.writer.add_column(pa.field("l", pa.list_(pa.list_(pa.int8()))))
    loader.writer.set_row(2, [[1], [2, 3]])
    assert loader.harvest().column("l").to_pylist() == [None, [[1], [2, 3]]]


def test_dict_is_written_entry_by_entry(loaders: Any) -> None:
    loader = loaders.of(pa.field("d", pa.map_(pa.int32(), pa.list_(pa.string()))))
    column = loader.writer.column("d")
    loader.writer.start_row()
    for number in range(2):
        column.key.set_int(number)
        column.value.element.set_string(f"v{number}")
        column.save()
    column.key.set_int(7)
    column.save()
    loader.writer.save_row()
    loader.writer.set_row({8: ["x"]})
    assert loader.harvest().column("d").to_pylist() == [[(0, ["v0"]), (1, ["v1"]), (7, None)], [(8, ["x"])]]


def test_dict_entry_without_key_is_refused(loaders: Any) -> None:
    loader = loaders.of(pa.field("d", pa.map_(pa.string(), pa.int8())))
    loader.writer.start_row()
    loader.writer.column("d").value.set_int(1)
    with pytest.raises(ColumnError, match="entry without a key"):
        loader.writer.column("d").save()


def test_late_column_gets_its_type_from_the_reader(loaders: Any) -> None:
    loader = loaders.of(pa.field("l", pa.null()), N)
    loader.writer.set_row(None, 1)
    with pytest.raises(ValueConversionError, match="column 'l' must be void, but the value is 5"):
        loader.writer.set_row(5, 2)
    assert loader.writer.add_column(pa.field("L", pa.list_(pa.int8()))) == 0
    loader.writer.set_row([5], 2)
    assert loader.harvest().to_pylist() == [{"L": None, "n": 1}, {"L": [5], "n": 2}]


def test_appended_maps_add_members(loaders: Any) -> None:
    loader = loaders.of()
    loader.append(pa.table({"m": [{"a": 1}], "l": [[{"a": 1}]]}))
    loader.append(pa.table({"m": [{"b": "x", "A": 2}], "l": [[{"b": "y"}]]}))
    assert loader.harvest().to_pylist() == [
        {"m": {"a": 1, "b": None}, "l": [{"a": 1, "b": None}]},
        {"m": {"a": 2, "b": "x"}, "l": [{"a": None, "b": "y"}]},
    ]


@pytest.mark.parametrize(("type_", "use", "problem"), [
    (pa.int32(), lambda column: column.set_string("x"), "must be int, but the value is 'x'"),
    (pa.int32(), lambda column: column.set_double(1.5), "must be int, but the value is 1.5"),
    (pa.int8(), lambda column: column.set_int(128), "must be tinyint, but the value is 128"),
    (pa.uint32(), lambda column: column.set_int(-1), "must be uint32, but the value is -1"),
    (pa.int32(), lambda column: column.set_value(True), "must be int, but the value is True"),
    (pa.int32(), lambda column: column.element, "has no elements"),
    (pa.int32(), lambda column: column.column("a"), "has no member 'a'"),
    (pa.int32(), lambda column: column.append_bytes(b""), "must be int"),
    (pa.float32(), lambda column: column.set_double(1e300), "must be float"),
    (pa.bool_(), lambda column: column.set_value(1), "must be boolean, but the value is 1"),
    (pa.string(), lambda column: column.set_string(5), "must be string, but the value is 5"),
    (pa.string(), lambda column: column.set_string(b"\\ud800".decode("unicode_escape")), "must be string"),
    (
        pa.string(), lambda column: column.set_bytes(b"\\xff".decode("unicode_escape").encode("latin1")),
        "must be string",
    ),
    (pa.binary(), lambda column: column.set_string("x"), "must be binary, but the value is 'x'"),
    (pa.binary(2), lambda column: column.set_bytes(b"x"), "must be binary"),
    (pa.decimal128(4, 2), lambda column: column.set_value(100), "must be decimal"),
    (pa.date32(), lambda column: column.set_value("2024-01-01"), "must be date"),
    (pa.struct([N]), lambda column: column.set_int(1), "struct"),
    (pa.struct([N]), lambda column: column.set_value([1]), "struct"),
    (pa.list_(pa.int8()), lambda column: column.set_value("abc"), "must be array<tinyint>"),
    (pa.list_(pa.int8()), lambda column: column.key, "has no keys"),
    (pa.map_(pa.string(), pa.int8()), lambda column: column.element, "has no elements"),
])  # fmt: skip
def test_wrong_setter_names_column_and_type(loaders: Any, type_: Any, use: Any, problem: str) -> None:
    loader = loaders.of(pa.field("c", type_))
    loader.writer.start_row()
    with pytest.raises(ValueConversionError, match=rf"column 'c' .*{problem}"):
        use(loader.writer.column("c"))


def test_append_bytes_to_array_element_is_refused(loaders: Any) -> None:
    loader = loaders.of(pa.field("l", pa.list_(pa.binary())))
    loader.writer.start_row()
    with pytest.raises(LoaderStateError, match="set_bytes"):
        loader.writer.column("l").element.append_bytes(b"x")


def test_appended_text_must_be_utf8_as_a_whole(loaders: Any) -> None:
    loader = loaders.of(pa.field("s", pa.string()))
    loader.writer.start_row()
    for piece in (b"\xc3", b"\xa9"):
        loader.writer.column("s").append_bytes(piece)
    loader.writer.save_row()
    assert loader.harvest().column(0).to_pylist() == ["é"]
    loader.start_batch()
    loader.writer.start_row()
    loader.writer.column("s").append_bytes(b"\xc3")
    loader.writer.save_row()
    with pytest.raises(ValueConversionError, match="row 1 of the batch: column 's'"):
        loader.harvest()


def test_errors_name_the_place_of_the_reader(loaders: Any) -> None:
    loader = loaders.of(N)
    loader.context = loader.context.at("line 7")
    loader.writer.start_row()
    with pytest.raises(ValueConversionError, match=r"^line 7: column 'n'"):
        loader.writer.column("n").set_string("x")


def test_array_of_maps_written_again_is_replaced(loaders: Any) -> None:
    loader = loaders.of(pa.field("m", pa.list_(pa.struct([("x", pa.int8())]))))
    for number in (1, 2):
        loader.writer.start_row()
        loader.writer.column("m").set_value([{"x": number}] * number)
    loader.writer.column("m").set_value([{"x": 3}])
    loader.writer.save_row()
    assert loader.harvest().to_pylist() == [{"m": [{"x": 3}]}]


def test_omitted_members_in_array_of_maps_are_null(loaders: Any, write: Any) -> None:
    loader = loaders.of(pa.field("m", pa.list_(pa.struct([("x", pa.int8()), ("y", pa.string())]))))
    write.saved_row(loader, {"m": [{"x": 1, "y": ...}, {"x": ..., "y": "b"}, {"x": ..., "y": ...}]})
    assert loader.harvest().column(0).to_pylist() == [
        [{"x": 1, "y": None}, {"x": None, "y": "b"}, {"x": None, "y": None}]
    ]


def test_arrays_of_dicts_are_written_element_by_element(loaders: Any, write: Any) -> None:
    loader = loaders.of(pa.field("l", pa.list_(pa.map_(pa.string(), pa.int8()))))
    rows = [[[("a", 1), ("b", None)], []], [], [[("a", 2)]]]
    for row in rows:
        write.saved_row(loader, {"l": row})
    assert loader.harvest().column(0).to_pylist() == rows
