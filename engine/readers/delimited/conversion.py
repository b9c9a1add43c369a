"""Conversion of text fields to the types of columns.

Guarantees:

1. Converting a whole block gives the same result as converting its values one by one.
2. If a value does not match the type of its column, its line and column are determined, and the policy ``malformed``
   applies.
3. The rules for text are those of pyarrow:

   - ``true``, ``True``, ``TRUE`` and ``1`` are true. The corresponding values are false.
   - Numbers and dates may be surrounded by spaces. An integer may be hexadecimal, such as ``0x1F``.
   - Dates and timestamps have the ISO 8601 format.

   Some rules are stricter than in pyarrow. A decimal must not have more digits than its type. Its exponent has at most
   one sign and no hexadecimal digits. An integer in a column of floats or doubles must have an exact representation.
4. Values of types for which ``is_direct`` is false remain text. The loader converts these values.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from engine.arrow_types import EMPTY_TEXT, characters, text_array
from engine.readers.byte_arrays import CARRIAGE_RETURN, LINE_FEED, ByteArray
from engine.readers.delimited.delimited_options import Dialect
from engine.result_set.conversion.casts import check_floats
from engine.result_set.conversion.decimals import cast_decimals

_NULLS = [""]
_NULL = pa.nulls(1, pa.string())[0]
_SPACE = ord(" ")
_LINE_END = (LINE_FEED, CARRIAGE_RETURN)


@dataclass(frozen=True, slots=True)
class ColumnPlan:
    """Plan for converting the columns of a file.

    Attributes:
        names: The names of all columns of the file, in order.
        wanted: The columns to read, with the types to convert to.
        is_empty_null: Whether an empty field of a text column is null.
        null_value: The text that is null in all columns. None if there is none.
        dialect: The syntax of the rows.
    """

    names: Sequence[str]
    wanted: pa.Schema
    is_empty_null: bool
    null_value: str | None
    dialect: Dialect


def is_direct(type_: pa.DataType) -> bool:
    """Return whether pyarrow can parse text directly to this type."""
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
        pa.ArrowInvalid: If a row has too many or too few fields, or a value does not match its type.
    """
    if data[0] in _LINE_END and np.isin(data, _LINE_END).all():
        return plan.wanted.empty_table()
    return _read(data, plan, has_quotes)


def convert_values(values: Sequence[str | None], type_: pa.DataType, *, is_empty_null: bool) -> pa.Array:
    """Convert the values of one column. None becomes null.

    Raises:
        pa.ArrowInvalid: If a value does not match the type.
    """
    if pa.types.is_string(type_):
        return pa.array([None if value == "" and is_empty_null else value for value in values], type_)
    if not values:
        return pa.array([], type_)
    # Each value is quoted, because pyarrow ignores empty lines.
    lines = "".join('"' + (value or "").replace('"', '""') + '"\n' for value in values)
    plan = ColumnPlan(["value"], pa.schema([("value", type_)]), is_empty_null, None, Dialect(",", '"', "", ""))
    return _read(lines.encode(), plan, True).column(0).combine_chunks()


def replace_nulls(texts: pa.Array | pa.ChunkedArray, null_value: str) -> pa.Array | pa.ChunkedArray:
    """Return texts in which those that are equal to ``null_value`` are null."""
    return pc.if_else(pc.equal(texts, text_array(null_value)[0]), _NULL, texts)


def failing_values(values: Sequence[str | None], type_: pa.DataType) -> list[int]:
    """Return the indexes of the values that do not match the type, in ascending order."""
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
    types = {field.name: pa.string() if pa.types.is_decimal(field.type) else field.type for field in plan.wanted}
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
            column_types=types,
            include_columns=plan.wanted.names,
            null_values=_NULLS if plan.null_value is None else [*_NULLS, plan.null_value],
            strings_can_be_null=plan.is_empty_null,
            check_utf8=False,
        ),
    )
    for index, field in enumerate(plan.wanted):
        if plan.null_value is not None and pa.types.is_string(types[field.name]):
            table = table.set_column(index, table.field(index), replace_nulls(table.column(index), plan.null_value))
        try:
            if pa.types.is_floating(field.type):
                column = table.column(index).combine_chunks()
                check_floats(column, partial(_text_column, data, plan, field.name, has_quotes))
            elif pa.types.is_decimal(field.type):
                table = table.set_column(index, field, _to_decimals(table.column(index).combine_chunks(), field.type))
        except ValueError as error:
            raise pa.ArrowInvalid(str(error)) from None
    return table


def _to_decimals(texts: pa.Array, type_: pa.DataType) -> pa.Array:
    numbers = pc.if_else(pc.equal(texts, EMPTY_TEXT), _NULL, texts)
    has_spaces = (characters(numbers) <= _SPACE).any()
    return cast_decimals(pc.utf8_trim(numbers, " \t") if has_spaces else numbers, type_)


def _text_column(data: bytes | ByteArray, plan: ColumnPlan, name: str, has_quotes: bool) -> pa.Array:
    """Return one column as text."""
    as_text = replace(plan, wanted=pa.schema([(name, pa.string())]), is_empty_null=True)
    return _read(data, as_text, has_quotes).column(0).combine_chunks()
