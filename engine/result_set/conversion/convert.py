"""Conversion of arrays from the reader's type to the promised one.

| from | to | rule |
| --- | --- | --- |
| any integer | any integer | the number must fit |
| any integer | float, double | the number must be exact |
| any integer | decimal | the number must fit |
| float | double | exact |
| double | float | the number must be exact |
| decimal | decimal | no digit may be lost |
| decimal | float, double | the nearest one, as SQL widens |
| date | timestamp | midnight, in the time zone of the timestamp |
| date, time, timestamp, duration | the same in another unit | no digit may be lost |
| timestamp with time zone | timestamp with another time zone | the same instant |
| text | any type except nested ones | see below |
| bytes | text | must be UTF-8 |
| text | bytes | as UTF-8 |
| anything | text | numbers and times as Arrow writes them, nested values as JSON |
| map | map | member by member, by name; extra members are left out, missing ones filled |
| list, dict | list, dict | element by element |
| LATE | anything | nulls |
| dictionary, run-end encoded, views | as their values | |

Text is parsed strictly: no surrounding spaces, no thousands separators. Dates and times are ISO 8601 with two digits
each, and text without an offset is a timestamp in the column's time zone. Fractions become the nearest float or
double. Integers are decimal and must be exact. No number becomes infinite.

Guarantees:

1. A value becomes an equal value, except on the line that says "the nearest one". Otherwise it is an error.
2. An error names the column, the value and the row, as ``row 5``, counted from 1 in the array.
3. A null stays null. In a required column it becomes the declared default. Without one it is an error.
4. An array that already has the type is returned as it is.
"""

import pyarrow as pa
import pyarrow.types as pt

from engine.arrow_types import is_text
from engine.context import ErrorContext
from engine.errors import NOWHERE, SchemaConflictError, ValueConversionError
from engine.result_set.conversion.casts import cast_values, decode
from engine.result_set.conversion.errors import NoConversionError, RefusedError
from engine.result_set.conversion.nested_arrays import convert_nested, fill_nulls


def convert_array(array: pa.Array, to: pa.Field, column: str, context: ErrorContext = NOWHERE) -> pa.Array:
    """Convert an array to a field's type.

    The result has no nulls if the field is required.

    Args:
        array: The values.
        to: The field.
        column: The path of the column, for errors.
        context: What the reader is reading, for errors.

    Raises:
        SchemaConflictError: If no value of the array's type can become one of the other type.
        ValueConversionError: If a value cannot.
    """
    try:
        return fill_nulls(convert_values(array, to.type, column), to, column)
    except NoConversionError as error:
        raise SchemaConflictError(
            error.column, offered=error.offered, promised=error.promised, context=context
        ) from None
    except RefusedError as error:
        row = f"row {error.index + 1}"
        place = context.at(f"{context.position}, {row}" if context.position else row)
        raise ValueConversionError(error.column, error.value, error.wanted, place) from None


def convert_values(array: pa.Array, to: pa.DataType, column: str) -> pa.Array:
    """Convert values to a type. Nulls stay null.

    Raises:
        NoConversionError: If no conversion exists between the types.
        RefusedError: If a value cannot be converted.
    """
    if array.type.equals(to):
        return array
    if pt.is_null(array.type):
        return pa.nulls(len(array), to)
    plain = decode(array)
    if pt.is_nested(plain.type) and not is_text(to):
        return convert_nested(plain, to, column, convert_values)
    return cast_values(plain, to, column)


def is_convertible(offered: pa.DataType, to: pa.DataType) -> bool:
    """Return whether the table has a line for the two types."""
    if offered.equals(to):
        return True
    try:
        convert_values(pa.array([], offered), to, "")
    except (NoConversionError, pa.ArrowNotImplementedError):
        return False
    return True
