"""From the text of fields to the types of columns.

Guarantees:

1. A block that pyarrow converts as a whole, and the same rows converted value by value, give the same.
2. Where a value is not of its type, its line and column are found, and the policy ``malformed`` decides.
3. ``true``, ``True``, ``TRUE`` and ``1`` are true, and likewise false; numbers and ISO 8601 dates and timestamps are as
   pyarrow reads them. Other types than those of ``is_direct`` stay text, for the loader to convert.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyarrow import csv

from engine.readers.codes import CARRIAGE_RETURN, LINE_FEED, Codes
from engine.readers.delimited.options import Dialect

_PARALLEL_BYTES = 1024 * 1024
_NULLS = [""]
_LINE_END = (LINE_FEED, CARRIAGE_RETURN)


@dataclass(frozen=True, slots=True)
class Plan:
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


def convert_block(codes: Codes, plan: Plan, *, has_quotes: bool) -> pa.Table:
    """All rows of plain bytes at once.

    Raises:
        pa.ArrowInvalid: A row has too many or too few fields, or a value is not of its type.
    """
    if codes[0] in _LINE_END and np.isin(codes, _LINE_END).all():
        return plan.wanted.empty_table()
    try:
        return _read(codes, plan, has_quotes, _PARALLEL_BYTES)
    except pa.ArrowInvalid:  # perhaps only because a row is longer than a part
        return _read(codes, plan, has_quotes, len(codes) + 1)


def convert_values(values: Sequence[str | None], type_: pa.DataType, *, is_empty_null: bool) -> pa.Array:
    """The values of one column; None stays null.

    Raises:
        pa.ArrowInvalid: One of them is not of the type.
    """
    if pa.types.is_string(type_):
        return pa.array([None if value == "" and is_empty_null else value for value in values], type_)
    # Quoted, because an empty line would be none.
    lines = "".join('"' + (value or "").replace('"', '""') + '"\n' for value in values)
    plan = Plan(["value"], pa.schema([("value", type_)]), is_empty_null, Dialect(",", '"', "", ""))
    if not values:
        return pa.array([], type_)
    return _read(lines.encode(), plan, True, len(lines.encode()) + 1).column(0).combine_chunks()


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


def _read(data: bytes | Codes, plan: Plan, has_quotes: bool, block_bytes: int) -> pa.Table:
    return csv.read_csv(
        pa.BufferReader(pa.py_buffer(data)),
        csv.ReadOptions(column_names=list(plan.names), block_size=block_bytes),
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
