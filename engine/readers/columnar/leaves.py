"""The conversion of the values of one type in a column, at every depth."""

from collections.abc import Callable

import pyarrow as pa

from engine.arrow_types import inner_fields
from engine.result_set.conversion.conversion_errors import NoConversionError, RefusedError
from engine.result_set.conversion.nested_arrays import convert_nested
from engine.type_names import type_name


def convert_leaves(
    array: pa.Array, is_wanted: Callable[[pa.DataType], bool], convert: Callable[[pa.Array], pa.Array]
) -> pa.Array:
    """Return an array with all arrays of the wanted type converted, also nested ones, in the order of the schema.

    Args:
        array: The array.
        is_wanted: Whether a type is the wanted type.
        convert: Returns an array of the same type and length.

    Raises:
        ArrowInvalid: If the values cannot be replaced where they are.
    """

    def visit(values: pa.Array, type_: pa.DataType, column: str) -> pa.Array:
        if is_wanted(type_):
            return convert(values)
        return convert_nested(values, type_, column, visit) if _contains(type_, is_wanted) else values

    try:
        return visit(array, array.type, "")
    except NoConversionError as error:
        problem = f"it has dates, times or texts in {type_name(error.offered)}, whose values cannot be replaced"
        raise pa.ArrowInvalid(problem) from error
    except RefusedError as error:
        raise pa.ArrowInvalid(f"it has a null in {error.column!r}, which must not be null") from error


def _contains(type_: pa.DataType, is_wanted: Callable[[pa.DataType], bool]) -> bool:
    return is_wanted(type_) or any(_contains(field.type, is_wanted) for field in inner_fields(type_))
