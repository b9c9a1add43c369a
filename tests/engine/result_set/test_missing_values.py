"""The values for missing ones, by the mode of the column."""

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from engine.errors import ColumnError, ValueConversionError

N = pa.field("n", pa.int32())


def required(type_: pa.DataType, default: str | None = None) -> pa.Field:
    metadata = None if default is None else {b"lodge.default": default.encode()}
    return pa.field("c", type_, nullable=False, metadata=metadata)


MODES = [
    pytest.param(pa.field("c", pa.int32()), None, id="nullable"),
    pytest.param(pa.field("c", pa.list_(pa.int32())), None, id="nullable_list"),
    pytest.param(required(pa.int16()), 0, id="int"),
    pytest.param(required(pa.bool_()), False, id="boolean"),
    pytest.param(required(pa.float64()), 0.0, id="double"),
    pytest.param(required(pa.decimal128(5, 2)), Decimal("0.00"), id="decimal"),
    pytest.param(required(pa.string()), "", id="string"),
    pytest.param(required(pa.binary()), b"", id="bytes"),
    pytest.param(required(pa.list_(pa.string())), [], id="repeated"),
    pytest.param(required(pa.map_(pa.string(), pa.int8())), [], id="dict"),
    pytest.param(required(pa.struct([required(pa.int8()), N])), {"c": 0, "n": None}, id="map"),
    pytest.param(required(pa.int32(), "42"), 42, id="declared_int"),
    pytest.param(required(pa.string(), "none"), "none", id="declared_string"),
    pytest.param(required(pa.decimal128(5, 2), "1.5"), Decimal("1.50"), id="declared_decimal"),
    pytest.param(required(pa.bool_(), "true"), True, id="declared_boolean"),
]


@pytest.mark.parametrize(("field", "shown"), MODES)
def test_missing_values_are_filled_by_mode(loaders: Any, write: Any, field: pa.Field, shown: Any) -> None:
    value = shown if shown is not None else ([1] if pa.types.is_list(field.type) else 1)
    loader = loaders.of(N, field)
    for row in [{"n": 0}, {"n": 1, "c": value}, {"n": 2}, {"n": 3}]:
        write.saved_row(loader, row)
    assert loader.harvest().column("c").to_pylist() == [shown, value, shown, shown]


@pytest.mark.parametrize(("field", "shown"), MODES)
@pytest.mark.parametrize("is_bulk", [False, True])
def test_rows_before_new_column_are_backfilled_by_mode(
    loaders: Any, field: pa.Field, shown: Any, is_bulk: bool
) -> None:
    loader = loaders.of(N)
    if is_bulk:
        loader.append(pa.table({"n": [0, 1]}))
    else:
        loader.writer.set_row(0)
        loader.writer.set_row(1)
    loader.writer.add_column(field)
    assert loader.harvest().column("c").to_pylist() == [shown, shown]


@pytest.mark.parametrize("type_", [pa.date32(), pa.time64("us"), pa.timestamp("us"), pa.duration("us")])
def test_late_required_date_or_time_is_refused(loaders: Any, type_: pa.DataType) -> None:
    loader = loaders.of(N)
    loader.writer.add_column(required(type_).with_name("early"))
    loader.writer.set_row(0, _value_of(type_))
    with pytest.raises(ColumnError, match=r"column 'c' of type .* is required"):
        loader.writer.add_column(required(type_))
    assert loader.harvest().num_rows == 1


def _value_of(type_: pa.DataType) -> Any:
    return pa.scalar(0, pa.int32() if type_.bit_width == 32 else pa.int64()).cast(type_).as_py()


def test_late_required_map_with_required_date_is_refused(loaders: Any) -> None:
    loader = loaders.of(N)
    loader.writer.set_row(0)
    with pytest.raises(ColumnError, match="column 'c' of type struct"):
        loader.writer.add_column(required(pa.struct([required(pa.date32())])))
    loader.writer.set_row(1)
    assert loader.harvest().to_pylist() == [{"n": 0}, {"n": 1}]


def test_row_without_required_date_is_not_saved(loaders: Any) -> None:
    loader = loaders.of(N, required(pa.date32()))
    loader.writer.start_row()
    loader.writer.column("n").set_int(1)
    with pytest.raises(ColumnError, match="column 'c' of type date"):
        loader.writer.save_row()
    assert loader.harvest().num_rows == 0


def test_declared_default_allows_late_required_date(loaders: Any) -> None:
    loader = loaders.of(N)
    loader.writer.set_row(0)
    loader.writer.add_column(required(pa.date32(), "2024-02-29"))
    assert str(loader.harvest().column("c")[0]) == "2024-02-29"


def test_invalid_declared_default_is_refused(loaders: Any) -> None:
    with pytest.raises(ValueConversionError, match="column 'c' must be int, but the value is 'many'"):
        loaders.of(required(pa.int32(), "many"))


def test_null_in_required_column_is_declared_default_or_error(loaders: Any) -> None:
    loader = loaders.of(required(pa.int32(), "42"), required(pa.int32()).with_name("d"))
    loader.writer.start_row()
    loader.writer.column("c").set_null()
    with pytest.raises(ValueConversionError, match="column 'd' must be int and not null"):
        loader.writer.column("d").set_null()
    loader.writer.save_row()
    assert loader.harvest().to_pylist() == [{"c": 42, "d": 0}]


def test_columns_missing_in_appended_arrays_are_filled_by_mode(loaders: Any) -> None:
    loader = loaders.of(N, required(pa.string(), "none"))
    loader.append(pa.table({"N": [1, 2]}))
    assert loader.harvest().to_pylist() == [{"n": 1, "c": "none"}, {"n": 2, "c": "none"}]


def test_missing_values_are_filled_when_batch_overflows(loaders: Any, write: Any) -> None:
    loader = loaders.of(pa.field("b", pa.string()), required(pa.int32(), "42"), vector_bytes=100)
    for row in [{"b": "x" * 40}, {"b": "x" * 40, "c": 1}, {"b": "x" * 40}]:
        write.saved_row(loader, row)
    assert [batch.column("c").to_pylist() for batch in loaders.harvest_all(loader)] == [[42, 1], [42]]


def test_long_declared_default_counts_towards_limits(loaders: Any) -> None:
    loader = loaders.of(N, required(pa.string(), "x" * 40), vector_bytes=100)
    for number in range(3):
        loader.writer.start_row()
        loader.writer.column("n").set_int(number)
        loader.writer.save_row()
    assert [batch.num_rows for batch in loaders.harvest_all(loader)] == [2, 1]
