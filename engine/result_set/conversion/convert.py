"""Arrays of one type as arrays of another: what a loader makes of a column whose type was promised otherwise.

| from | to | rule |
| --- | --- | --- |
| any integer | any integer | the number must fit |
| any integer | float, double | the number must be a float or a double exactly |
| any integer | decimal | the number must fit |
| float | double | exact |
| double | float | the number must be a float exactly |
| decimal | decimal | digits must not be lost |
| decimal | float, double | SQL's widening; the nearest one |
| date | timestamp | midnight, in the zone of the timestamp |
| date, time, timestamp, duration | the same in another unit | digits must not be lost |
| timestamp with zone | timestamp with another zone | the same instant |
| text | any type but nested ones | see below |
| bytes | text | must be UTF-8 |
| text | bytes | in UTF-8 |
| anything | text | numbers and times as Arrow writes them, nested values as JSON |
| map | map | member by member, by name; members that the other has not are left out, missing ones filled |
| list, dict | list, dict | element by element |
| LATE | anything | nulls |
| dictionary, run-end encoded, views | as their values | |

Text is read strictly: no spaces around, no separators of thousands. Fractions become the nearest float or double, but
an integer must be one exactly, and no number becomes infinite. Integers are decimal, dates and times ISO 8601
with two digits each; text without an offset is a timestamp of the wanted zone.

Guarantees:

1. A value becomes an equal value, but for the line that says "the nearest one", or there is an error.
2. An error names column, value and row: the row as ``row 5``, counted from 1 in the array.
3. A null stays null. Where it may not be one it becomes the declared default; without one it is an error.
4. An array that has the type already is returned as it is.
"""

import pyarrow as pa
import pyarrow.types as pt

from engine.context import ErrorContext
from engine.errors import NOWHERE, SchemaConflictError, ValueConversionError
from engine.result_set.conversion import casts, nested_arrays
from engine.result_set.conversion.errors import NotOfferedError, RefusedError


def convert_array(array: pa.Array, to: pa.Field, column: str, context: ErrorContext = NOWHERE) -> pa.Array:
    """The array as one of the field's type, without nulls if it is required.

    Raises:
        SchemaConflictError: No value of the array's type can become one of the other type.
        ValueConversionError: A value cannot.
    """
    try:
        return nested_arrays.without_nulls(convert_values(array, to.type, column), to, column)
    except NotOfferedError as error:
        raise SchemaConflictError(
            error.column, offered=error.offered, promised=error.promised, context=context
        ) from None
    except RefusedError as error:
        row = f"row {error.index + 1}"
        place = context.at(f"{context.position}, {row}" if context.position else row)
        raise ValueConversionError(error.column, error.value, error.wanted, place) from None


def convert_values(array: pa.Array, to: pa.DataType, column: str) -> pa.Array:
    """Convert the values inside others."""
    if array.type.equals(to):
        return array
    if pt.is_null(array.type):
        return pa.nulls(len(array), to)
    plain = casts.decode(array)
    if pt.is_nested(plain.type) and not casts.is_text(to):
        return nested_arrays.convert_nested(plain, to, column, convert_values)
    return casts.cast_values(plain, to, column)


def is_convertible(offered: pa.DataType, to: pa.DataType) -> bool:
    """Whether the table has a line for the two types."""
    if offered.equals(to):
        return True
    try:
        convert_values(pa.array([], offered), to, "")
    except (NotOfferedError, pa.ArrowNotImplementedError):
        return False
    return True
