"""From the text of fields to the types of columns.

Guarantees:

1. A block that pyarrow converts as a whole, and the same rows converted value by value, give the same.
2. Where a value is not of its type, its line and column are found, and the policy ``malformed`` decides.
3. ``true``, ``True``, ``TRUE`` and ``1`` are true, and likewise false; numbers and ISO 8601 dates and timestamps are as
   pyarrow reads them, which takes spaces around numbers and dates, and ``0x1F`` for an integer. But a decimal has at
   most the digits of its type, and an integer is a float or a double exactly.
   Other types than those of ``is_direct`` stay text, for the loader to convert.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa
from pyarrow import csv

from engine.readers.byte_arrays import CARRIAGE_RETURN, LINE_FEED, Codes
from engine.readers.delimited.options import Dialect
from engine.result_set.conversion.casts import check_floats

_NULLS = [""]
_LINE_END = (LINE_FEED, CARRIAGE_RETURN)


@dataclass(frozen=True, slots=True)
class ColumnPlan:
    """Which columns a file has, and what is to become of them.

    Attributes:
        names: Of all columns of the file, in order.
        wanted: The columns that are read, as they leave the reader; a part of ``names``.
        is_empty_null: Whether an empty field of a text column is null.
        dialect: How the rows are written.
    """

    names: Sequence[str]
    wanted: pa.Schema
    is_empty_null: bool
    dialect: Dialect


def is_direct(type_: pa.DataType) -> bool:
    """Whether pyarrow makes values of this type of text while it parses."""
    if pa.types.is_timestamp(type_):
        return type_.tz is None
    return bool(
        pa.types.is_integer(type_)
        or pa.types.is_float32(type_)
        or pa.types.is_float64(type_)
        or pa.types.is_boolean(type_)
        or pa.types.is_date32(type_)
        or pa.types.is_decimal128(type_)
        or pa.types.is_string(type_)
    )


def convert_block(codes: Codes, plan: ColumnPlan, *, has_quotes: bool) -> pa.Table:
    """All rows of plain bytes at once.

    Raises:
        pa.ArrowInvalid: A row has too many or too few fields, or a value is not of its type.
    """
    if codes[0] in _LINE_END and np.isin(codes, _LINE_END).all():
        return plan.wanted.empty_table()
    return _read(codes, plan, has_quotes)


def convert_values(values: Sequence[str | None], type_: pa.DataType, *, is_empty_null: bool) -> pa.Array:
    """The values of one column; None stays null.

    Raises:
        pa.ArrowInvalid: One of them is not of the type.
    """
    if pa.types.is_string(type_):
        return pa.array([None if value == "" and is_empty_null else value for value in values], type_)
    # Quoted, because an empty line would be none.
    lines = "".join('"' + (value or "").replace('"', '""') + '"\n' for value in values)
    plan = ColumnPlan(["value"], pa.schema([("value", type_)]), is_empty_null, Dialect(",", '"', "", ""))
    if not values:
        return pa.array([], type_)
    return _read(lines.encode(), plan, True).column(0).combine_chunks()


def failing_values(values: Sequence[str | None], type_: pa.DataType) -> list[int]:
    """Which of the values are not of the type, ascending."""
    found: list[int] = []
    ranges = [(0, len(values))]
    while ranges:
        start, end = ranges.pop()
        if _are_convertible(values[start:end], type_):
            continue
        if end - start == 1:
            found.append(start)
        else:
            middle = (start + end) // 2
            ranges += [(middle, end), (start, middle)]
    return found


def _are_convertible(values: Sequence[str | None], type_: pa.DataType) -> bool:
    try:
        convert_values(values, type_, is_empty_null=True)
    except pa.ArrowInvalid:
        return False
    return True


def _read(data: bytes | Codes, plan: ColumnPlan, has_quotes: bool) -> pa.Table:
    table = csv.read_csv(
        pa.BufferReader(pa.py_buffer(data)),
        csv.ReadOptions(column_names=list(plan.names), block_size=len(data) + 1, use_threads=False),
        csv.ParseOptions(
            delimiter=plan.dialect.delimiter,
            quote_char=plan.dialect.quote or False,
            newlines_in_values=has_quotes,
            ignore_empty_lines=True,
        ),
        csv.ConvertOptions(
            column_types={field.name: field.type for field in plan.wanted},
            include_columns=plan.wanted.names,
            null_values=_NULLS,
            strings_can_be_null=plan.is_empty_null,
            check_utf8=False,
        ),
    )
    for field, column in zip(table.schema, table.columns, strict=True):
        if pa.types.is_decimal(field.type):
            column.validate(full=True)  # pyarrow fills up the scale without a look at the precision
        elif pa.types.is_floating(field.type):
            _check_floats(column, partial(_text, data, plan, field.name, has_quotes))
    return table


def _check_floats(column: pa.ChunkedArray, text: Callable[[], pa.Array]) -> None:
    try:
        check_floats(column.combine_chunks(), text)
    except ValueError as error:
        raise pa.ArrowInvalid(str(error)) from None


def _text(data: bytes | Codes, plan: ColumnPlan, name: str, has_quotes: bool) -> pa.Array:
    """One column as it stands there."""
    as_text = replace(plan, wanted=pa.schema([(name, pa.string())]), is_empty_null=True)
    return _read(data, as_text, has_quotes).column(0).combine_chunks()
