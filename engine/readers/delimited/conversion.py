"""Conversion of text fields to the types of columns.

Guarantees:

1. To convert a block as a whole gives the same result as to convert its values one by one.
2. If a value is not of its column's type, its line and column are found, and the policy ``malformed`` decides.
3. pyarrow's rules of text apply:

   - ``true``, ``True``, ``TRUE`` and ``1`` are true. False is likewise.
   - Numbers and dates may have spaces around them. An integer may be hexadecimal, such as ``0x1F``.
   - Dates and timestamps follow ISO 8601.

   Two rules are stricter: a decimal has at most the digits of its type, and an integer in a column of floats or doubles
   must be exact.
4. Values of types other than those of ``is_direct`` stay text. The loader converts them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa
from pyarrow import csv

from engine.readers.byte_arrays import CARRIAGE_RETURN, LINE_FEED, ByteArray
from engine.readers.delimited.options import Dialect
from engine.result_set.conversion.casts import check_floats

_NULLS = [""]
_LINE_END = (LINE_FEED, CARRIAGE_RETURN)


@dataclass(frozen=True, slots=True)
class ColumnPlan:
    """The columns of a file and their conversion.

    Attributes:
        names: The names of all columns of the file, in order.
        wanted: The columns to read, with the types to convert to.
        is_empty_null: Whether an empty field of a text column is null.
        dialect: The syntax of the rows.
    """

    names: Sequence[str]
    wanted: pa.Schema
    is_empty_null: bool
    dialect: Dialect


def is_direct(type_: pa.DataType) -> bool:
    """Return whether pyarrow converts text to this type while it parses."""
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


def convert_block(data: ByteArray, plan: ColumnPlan, *, has_quotes: bool) -> pa.Table:
    """Convert all rows of a block at once.

    Raises:
        pa.ArrowInvalid: A row has too many or too few fields, or a value is not of its type.
    """
    if data[0] in _LINE_END and np.isin(data, _LINE_END).all():
        return plan.wanted.empty_table()
    return _read(data, plan, has_quotes)


def convert_values(values: Sequence[str | None], type_: pa.DataType, *, is_empty_null: bool) -> pa.Array:
    """Convert the values of one column. None stays null.

    Raises:
        pa.ArrowInvalid: A value is not of the type.
    """
    if pa.types.is_string(type_):
        return pa.array([None if value == "" and is_empty_null else value for value in values], type_)
    if not values:
        return pa.array([], type_)
    # Each value is quoted, because pyarrow ignores empty lines.
    lines = "".join('"' + (value or "").replace('"', '""') + '"\n' for value in values)
    plan = ColumnPlan(["value"], pa.schema([("value", type_)]), is_empty_null, Dialect(",", '"', "", ""))
    return _read(lines.encode(), plan, True).column(0).combine_chunks()


def failing_values(values: Sequence[str | None], type_: pa.DataType) -> list[int]:
    """Return the indexes of the values that are not of the type, in ascending order."""
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


def _read(data: bytes | ByteArray, plan: ColumnPlan, has_quotes: bool) -> pa.Table:
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
            column.validate(full=True)  # pyarrow extends the scale without checking the precision
        elif pa.types.is_floating(field.type):
            _check_floats(column, partial(_text_column, data, plan, field.name, has_quotes))
    return table


def _check_floats(column: pa.ChunkedArray, text: Callable[[], pa.Array]) -> None:
    try:
        check_floats(column.combine_chunks(), text)
    except ValueError as error:
        raise pa.ArrowInvalid(str(error)) from None


def _text_column(data: bytes | ByteArray, plan: ColumnPlan, name: str, has_quotes: bool) -> pa.Array:
    """Return one column as text."""
    as_text = replace(plan, wanted=pa.schema([(name, pa.string())]), is_empty_null=True)
    return _read(data, as_text, has_quotes).column(0).combine_chunks()
