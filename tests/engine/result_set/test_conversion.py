"""Conversions: a value becomes an equal value, or an error names it."""

from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from engine.context import ErrorContext
from engine.errors import NOWHERE, SchemaConflictError, ValueConversionError
from engine.limits import BatchLimits
from engine.projection.filter import PROJECT_ALL, ProjectedColumn
from engine.result_set.conversion.convert import convert_array
from engine.result_set.loader import ResultSetLoader
from engine.schema import DEFAULT_VALUE_KEY, TupleSchema

BERLIN = timezone(timedelta(hours=2))


def convert(array: pa.Array, to: pa.DataType, column: str, context: ErrorContext = NOWHERE) -> pa.Array:
    return convert_array(array, pa.field(column, to), column, context)


@pytest.mark.parametrize(("offered", "value", "to", "wanted"), [
    (pa.int64(), 127, pa.int8(), 127),
    (pa.uint64(), 2**63 - 1, pa.int64(), 2**63 - 1),
    (pa.int64(), 2**53 + 2, pa.float64(), float(2**53 + 2)),
    (pa.int64(), -(2**63), pa.float32(), -(2.0**63)),
    (pa.uint64(), 2**63, pa.float64(), 2.0**63),
    (pa.int64(), 5, pa.decimal128(5, 2), Decimal("5.00")),
    (pa.int64(), -(2**63), pa.decimal128(38, 10), Decimal(-(2**63))),
    (pa.float32(), 0.5, pa.float64(), 0.5),
    (pa.float64(), 0.5, pa.float32(), 0.5),
    (pa.decimal128(5, 2), Decimal("1.20"), pa.decimal128(9, 1), Decimal("1.2")),
    (pa.decimal128(38, 2), Decimal("1.25"), pa.decimal128(38, 37), Decimal("1.25")),
    (pa.decimal128(5, 2), Decimal("1.25"), pa.float64(), 1.25),
    (pa.date32(), date(2024, 2, 29), pa.timestamp("us"), datetime(2024, 2, 29)),
    (pa.date32(), date(2024, 7, 1), pa.timestamp("us", "Europe/Berlin"), datetime(2024, 7, 1, tzinfo=BERLIN)),
    (pa.timestamp("us", "UTC"), datetime(2024, 1, 1, tzinfo=UTC), pa.timestamp("ms", "Europe/Berlin"),
     datetime(2024, 1, 1, tzinfo=UTC)),
    (pa.time32("s"), time(1, 2, 3), pa.time64("us"), time(1, 2, 3)),
    (pa.duration("s"), timedelta(seconds=5), pa.duration("us"), timedelta(seconds=5)),
    (pa.binary(), "é".encode(), pa.string(), "é"),
    (pa.string(), "é", pa.binary(), "é".encode()),
    (pa.string(), "é", pa.large_string(), "é"),
    (pa.int8(), -5, pa.string(), "-5"),
    (pa.list_(pa.int8()), [1, None], pa.string(), "[1, null]"),
    (pa.struct({"a": pa.date32()}), {"a": date(2024, 1, 1)}, pa.string(), '{"a": "2024-01-01"}'),
    (pa.string(), "007", pa.int16(), 7),
    (pa.string(), "-1e3", pa.float64(), -1000.0),
    (pa.string(), "1.5", pa.decimal128(5, 2), Decimal("1.50")),
    (pa.string(), "TRUE", pa.bool_(), True),
    (pa.string(), "2024-02-29", pa.date32(), date(2024, 2, 29)),
    (pa.string(), "12:34:56.789", pa.time64("us"), time(12, 34, 56, 789_000)),
    (pa.string(), "12:34", pa.time32("s"), time(12, 34)),
    (pa.string(), "2024-02-29T12:00:00", pa.timestamp("us"), datetime(2024, 2, 29, 12)),
    (pa.string(), "2024-07-01 00:00:00+02:00", pa.timestamp("us", "UTC"), datetime(2024, 7, 1, tzinfo=BERLIN)),
    (pa.string(), "2024-07-01 00:00:00", pa.timestamp("us", "Europe/Berlin"), datetime(2024, 7, 1, tzinfo=BERLIN)),
    (pa.string(), "2024-07-01", pa.timestamp("us", "Europe/Berlin"), datetime(2024, 7, 1, tzinfo=BERLIN)),
    (pa.null(), None, pa.list_(pa.int8()), None),
    (pa.list_(pa.int8()), [1, None], pa.large_list(pa.int64()), [1, None]),
    (pa.list_(pa.int8(), 2), [1, 2], pa.list_(pa.string()), ["1", "2"]),
    (pa.map_(pa.string(), pa.int8()), [("a", 1)], pa.map_(pa.string(), pa.string()), [("a", "1")]),
    (pa.struct({"A": pa.int8(), "x": pa.int8()}), {"A": 1, "x": 2}, pa.struct({"b": pa.int8(), "a": pa.int64()}),
     {"b": None, "a": 1}),
])  # fmt: skip
def test_value_becomes_equal_value_and_null_stays_null(offered: Any, value: Any, to: Any, wanted: Any) -> None:
    array = convert(pa.array([None, value, None], offered).slice(1), to, "c")
    array.validate(full=True)
    assert array.type == to
    assert array.to_pylist() == [wanted, None]


@pytest.mark.parametrize(("offered", "value", "to"), [
    (pa.int64(), 128, pa.int8()),
    (pa.int64(), -1, pa.uint64()),
    (pa.int64(), 1000, pa.decimal128(4, 2)),
    (pa.int64(), 2**53 + 1, pa.float64()),
    (pa.int64(), 2**63 - 1, pa.float64()),
    (pa.uint64(), 2**64 - 1, pa.float64()),
    (pa.int32(), 2**24 + 1, pa.float32()),
    (pa.float64(), 0.1, pa.float32()),
    (pa.float64(), 1e300, pa.float32()),
    (pa.decimal128(5, 2), Decimal("1.25"), pa.decimal128(5, 1)),
    (pa.decimal128(19, 3), Decimal("2419780823570748.315"), pa.decimal128(38, 38)),
    (pa.string(), "95962291402021331334", pa.decimal128(38, 22)),
    (pa.string(), "3.7188221081518712081659993902739149789177", pa.decimal128(4, 1)),
    (pa.timestamp("us"), datetime(2024, 1, 1, microsecond=1), pa.timestamp("ms")),
    (pa.timestamp("us"), datetime(9999, 1, 1), pa.timestamp("ns")),
    (pa.date32(), date(9999, 1, 1), pa.timestamp("ns")),
    (pa.binary(), b"\xff", pa.string()),
    (pa.string(), "0x1F", pa.int32()),
    (pa.string(), " 1", pa.int32()),
    (pa.string(), "", pa.int32()),
    (pa.string(), "1_000", pa.int32()),
    (pa.string(), "1.5", pa.int32()),
    (pa.string(), "99999999999", pa.int32()),
    (pa.string(), "1,5", pa.float64()),
    (pa.string(), "1.239", pa.decimal128(5, 2)),
    (pa.string(), "yes", pa.bool_()),
    (pa.string(), "2024-02-30", pa.date32()),
    (pa.string(), "25:00", pa.time64("us")),
    (pa.string(), "12:34:56.7891234", pa.time64("us")),
    (pa.string(), "2024-01-01 00:00:00+02:00", pa.timestamp("us")),
    (pa.list_(pa.int64()), [1, 128], pa.list_(pa.int8())),
    (pa.struct({"a": pa.int64()}), {"a": 128}, pa.struct({"a": pa.int8()})),
    (pa.map_(pa.string(), pa.int64()), [("a", 128)], pa.map_(pa.string(), pa.int8())),
    (pa.list_(pa.int8()), [None], pa.list_(pa.field("item", pa.int16(), nullable=False))),
])  # fmt: skip
def test_inexact_value_is_refused_with_row_and_place(offered: Any, value: Any, to: Any) -> None:
    array = pa.array([None, [], None, value] if pa.types.is_list(offered) else [None, None, None, value], offered)
    place = ErrorContext("dfs", "a.csv", "row group 2")
    with pytest.raises(ValueConversionError, match=r"^'a\.csv' in workspace 'dfs', row group 2, row 4: column 'c"):
        convert(array, to, "c", place)


@pytest.mark.parametrize(("offered", "to"), [
    (pa.float64(), pa.int64()),
    (pa.float64(), pa.decimal128(5, 2)),
    (pa.bool_(), pa.int32()),
    (pa.timestamp("us"), pa.timestamp("us", "UTC")),
    (pa.timestamp("us"), pa.date32()),
    (pa.int32(), pa.timestamp("us")),
    (pa.string(), pa.list_(pa.string())),
    (pa.struct({"a": pa.int8()}), pa.map_(pa.string(), pa.int8())),
    (pa.list_(pa.bool_()), pa.list_(pa.int8())),
])  # fmt: skip
def test_types_outside_the_table_are_refused_without_values(offered: Any, to: Any) -> None:
    with pytest.raises(SchemaConflictError, match="column 'c"):
        convert(pa.array([], offered), to, "c")


def test_values_inside_null_map_are_ignored() -> None:
    inner = pa.array([999, 1], pa.int64())
    array = pa.StructArray.from_arrays([inner], ["a"], mask=pa.array([True, False]))
    to = pa.struct([pa.field("a", pa.int8(), nullable=False)])
    result = convert(array, to, "c")
    result.validate(full=True)
    assert result.to_pylist() == [None, {"a": 1}]


def test_null_in_required_member_becomes_declared_default() -> None:
    to = pa.struct([pa.field("a", pa.int8(), nullable=False, metadata={DEFAULT_VALUE_KEY: b"5"})])
    assert convert(pa.array([{"a": None}, {"a": 1}], pa.struct({"a": pa.int64()})), to, "c").to_pylist() == [
        {"a": 5},
        {"a": 1},
    ]


def test_array_of_the_same_type_is_returned_as_it_is() -> None:
    array = pa.array([1])
    assert convert(array, pa.int64(), "c") is array


@given(st.lists(st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1))), st.sampled_from([pa.int8(), pa.uint32()]))
def test_first_integer_that_does_not_fit_is_named(values: list[int | None], to: pa.DataType) -> None:
    low, high = (-128, 127) if to == pa.int8() else (0, 2**32 - 1)
    bad = [row for row, value in enumerate(values, 1) if value is not None and not low <= value <= high]
    try:
        assert convert(pa.array(values, pa.int64()), to, "c").to_pylist() == values
    except ValueConversionError as error:
        assert f"row {bad[0]}: " in str(error)
    else:
        assert not bad


class _ProjectAs:
    """A filter that projects every column as one type."""

    is_empty = False

    def __init__(self, type_: pa.DataType) -> None:
        self._type = type_

    def project(self, field: pa.Field) -> ProjectedColumn:
        return ProjectedColumn(field.with_type(self._type), PROJECT_ALL)


@given(
    text=st.one_of(
        st.text("0123456789.-+eE: TZx_", max_size=12),
        st.integers().map(str),
        st.datetimes().map(str),
        st.dates().map(str),
        st.times().map(str),
        st.decimals(allow_nan=False).map(str),
    ),
    to=st.sampled_from([
        pa.int32(), pa.float64(), pa.decimal128(9, 3), pa.bool_(), pa.date32(), pa.time64("us"),
        pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.binary(),
    ]),
)  # fmt: skip
@example("2024-01-01 00:00:00Z", pa.timestamp("us", "UTC"))
def test_written_and_appended_text_convert_alike(text: str, to: pa.DataType) -> None:
    def attempt(use: Any) -> Any:
        loader = ResultSetLoader(
            schema=TupleSchema([pa.field("c", pa.string())]), projection=_ProjectAs(to), limits=BatchLimits()
        )
        loader.start_batch()
        try:
            use(loader)
        except ValueConversionError:
            return "refused"
        return loader.harvest().column(0)

    assert attempt(lambda loader: loader.writer.set_row(text)) == attempt(
        lambda loader: loader.append(pa.table({"c": [text]}))
    )


@pytest.mark.parametrize("number", ["1e-999999999", "1e999999999", "123.4", "-1e-2", "NaN"])
def test_written_decimal_of_the_same_type_is_exact_or_refused(number: str) -> None:
    loader = ResultSetLoader(schema=TupleSchema([pa.field("c", pa.decimal128(3, 1))]), limits=BatchLimits())
    loader.start_batch()
    with pytest.raises(ValueConversionError, match="'c'"):
        loader.writer.set_row(Decimal(number))
    loader.writer.set_row(Decimal("1.200e1"))
    assert loader.harvest().column(0).to_pylist() == [Decimal("12.0")]


@pytest.mark.parametrize("number", ["3.7188221081518712081659993902739149789177", "1e-999999999", "1e999999999", "NaN"])
def test_written_decimal_that_does_not_fit_is_refused(number: str) -> None:
    schema = TupleSchema([pa.field("c", pa.decimal128(4, 1))])
    loader = ResultSetLoader(schema=schema, projection=_ProjectAs(pa.string()), limits=BatchLimits())
    loader.start_batch()
    with pytest.raises(ValueConversionError, match="'c'"):
        loader.writer.set_row(Decimal(number))
    loader.writer.set_row(Decimal("3.7"))
    assert loader.harvest().column(0).to_pylist() == ["3.7"]
