"""Values for rows that do not contain a column [result-set-loader "Building the Schema"].

| column | value if missing |
| --- | --- |
| nullable | null |
| required, with a declared default | the declared default |
| required number, boolean, text, bytes | zero, false, empty |
| required date, time, timestamp, interval | an error, because every value would be misleading |
| required map | a map in which each member has its value from this table |
| required list or dict | empty |
"""

import pyarrow as pa
import pyarrow.types as pt

from engine.arrow_types import inner_fields, is_bytes, is_text
from engine.context import ErrorContext
from engine.errors import NOWHERE, ColumnError, SchemaConflictError, ValueConversionError
from engine.result_set.conversion.casts import cast_values
from engine.result_set.conversion.conversion_errors import NoConversionError, RefusedError
from engine.schema import DEFAULT_VALUE_KEY
from engine.type_names import type_name


def declared_default(field: pa.Field, column: str, context: ErrorContext = NOWHERE) -> pa.Scalar | None:
    """Return the default value that the field's metadata declares. None if there is none.

    Raises:
        ValueConversionError: If the text of the default is not a valid value of the column's type.
        SchemaConflictError: If values of the column's type cannot be written as text.
    """
    text = (field.metadata or {}).get(DEFAULT_VALUE_KEY)
    if text is None:
        return None
    try:
        return cast_values(pa.array([text.decode()], pa.string()), field.type, column)[0]
    except RefusedError as error:
        raise ValueConversionError(column, error.value, error.wanted, context) from None
    except NoConversionError as error:
        raise SchemaConflictError(
            column, offered="a text as default", promised=error.promised, context=context
        ) from None


def has_natural_default(type_: pa.DataType) -> bool:
    """Return whether a required column of this type has a default without declaring it."""
    kinds = (pt.is_date, pt.is_time, pt.is_timestamp, pt.is_duration)
    return not (isinstance(type_, pa.BaseExtensionType) or any(is_kind(type_) for is_kind in kinds))


def natural_default(type_: pa.DataType) -> pa.Scalar:
    """Return the default of a required column: zero, false or empty."""
    if pt.is_nested(type_):
        return pa.scalar([], type_)
    if is_bytes(type_):
        return pa.scalar(bytes(type_.byte_width) if pt.is_fixed_size_binary(type_) else b"", type_)
    if pt.is_boolean(type_):
        return pa.scalar(False, type_)
    return pa.scalar("" if is_text(type_) else 0, type_)


def missing_values(field: pa.Field, count: int, column: str, context: ErrorContext = NOWHERE) -> pa.Array:
    """Return the values of ``count`` rows that do not contain the column.

    Raises:
        ColumnError: If ``count`` is not 0 and the column has no default value.
    """
    if field.nullable or count == 0:
        return pa.nulls(count, field.type)
    declared = declared_default(field, column, context)
    if declared is not None:
        return pa.repeat(declared, count)
    if pt.is_struct(field.type):
        members = inner_fields(field.type)
        arrays = [missing_values(member, count, f"{column}.{member.name}", context) for member in members]
        return pa.Array.from_buffers(field.type, count, [None], 0, children=arrays)
    if not has_natural_default(field.type):
        raise missing_value_error(field, column, context)
    return pa.repeat(natural_default(field.type), count)


def missing_value_error(field: pa.Field, column: str, context: ErrorContext) -> ColumnError:
    """Create the error for a missing value of a required column without a default value."""
    return ColumnError(
        column,
        f"of type {type_name(field.type)} is required, but a row has no value for it and the type has no default. "
        "Make the column nullable, or declare a default.",
        context,
    )
