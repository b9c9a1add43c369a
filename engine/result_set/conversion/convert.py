"""Conversion of arrays from the offered type to the promised type.

| from | to | rule |
| --- | --- | --- |
| any integer | any integer | the number must be in range |
| any integer | float, double | the number must have an exact representation |
| any integer | decimal | the number must be in range |
| float | double | exact |
| double | float | the number must have an exact representation |
| decimal | decimal | no digit may be lost |
| decimal | float, double | the nearest number, as in SQL |
| date | timestamp | midnight, in the time zone of the timestamp |
| date, time, timestamp, duration | the same type in another unit | no digit may be lost |
| timestamp with time zone | timestamp with another time zone | the same instant |
| text | any type except nested ones | see below |
| bytes | text | the bytes must be valid UTF-8 |
| text | bytes | encoded as UTF-8 |
| any type | text | numbers and times as Arrow writes them, nested values as JSON |
| text with a collation | text | the same text |
| map with the members of a variant | variant | see :mod:`engine.variants` |
| map | map | members are matched by name; extra members are dropped, and missing members are filled |
| list, dict | list, dict | element by element |
| LATE | any type | nulls |
| dictionary, run-end encoded, views | as the values | |

Text is parsed strictly. Surrounding spaces and thousands separators are not allowed. Dates and times have the ISO 8601
format with two digits for each part. A timestamp without an offset is interpreted in the time zone of the column.
Fractions are rounded to the nearest float or double. Integers must be decimal and must have an exact representation. A
finite number never becomes infinite.

Guarantees:

1. The converted value is equal to the original value, except where the table says "the nearest number". If there is no
   equal value, the conversion raises an error.
2. The error message includes the column, the value and the row, for example ``row 5``. Rows of the array are counted
   from 1.
3. A null stays null. In a required column, a null is replaced with the declared default. If there is no declared
   default, the conversion raises an error.
4. An array that already has the requested type is returned unchanged.
"""

import pyarrow as pa
import pyarrow.types as pt

from engine.arrow_types import is_text
from engine.context import ErrorContext
from engine.errors import NOWHERE, SchemaConflictError, ValueConversionError
from engine.result_set.conversion.casts import cast_values, decode
from engine.result_set.conversion.conversion_errors import NoConversionError, RefusedError
from engine.result_set.conversion.nested_arrays import convert_nested, fill_nulls
from engine.spark_type import VARIANT, SparkType
from engine.variants import is_variant, to_variants


def convert_array(array: pa.Array, to: pa.Field, column: str, context: ErrorContext = NOWHERE) -> pa.Array:
    """Convert an array to the type of a field.

    If the field is required, the result has no nulls.

    Args:
        array: The values.
        to: The field.
        column: The path of the column, for error messages.
        context: The source that the reader is reading, for error messages.

    Raises:
        SchemaConflictError: If there is no conversion between the two types.
        ValueConversionError: If a value cannot be converted.
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
        NoConversionError: If there is no conversion between the types.
        RefusedError: If a value cannot be converted.
    """
    if array.type.equals(to):
        return array
    if pt.is_null(array.type):
        return pa.nulls(len(array), to)
    if isinstance(array.type, SparkType) and array.type.is_text and is_text(to):
        return array.storage.cast(to)
    if to == VARIANT and is_variant(array.type):
        return to_variants(array)
    plain = decode(array)
    if pt.is_nested(plain.type) and not is_text(to):
        return convert_nested(plain, to, column, convert_values)
    return cast_values(plain, to, column)


def is_convertible(offered: pa.DataType, to: pa.DataType) -> bool:
    """Return whether the conversion table contains the two types."""
    if offered.equals(to):
        return True
    try:
        convert_values(pa.nulls(0, offered), to, "")
    except (NoConversionError, pa.ArrowNotImplementedError):
        return False
    return True
