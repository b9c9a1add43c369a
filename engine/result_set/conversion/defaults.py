"""Values for rows that lack one [result-set-loader "Building the Schema"].

| column | value for a missing one |
| --- | --- |
| nullable | null |
| required, with a declared default | the default |
| required number, boolean, text, bytes | zero, false, empty |
| required date, time, timestamp, interval | an error, because no value would be right |
| required map | a map of its members' values for missing ones |
| required list or dict | empty |
"""

import pyarrow as pa
import pyarrow.types as pt

from engine.arrow_types import inner_fields, is_bytes, is_text
from engine.context import ErrorContext
from engine.errors import NOWHERE, ColumnError, SchemaConflictError, ValueConversionError
from engine.result_set.conversion.casts import cast_values
from engine.result_set.conversion.errors import NoConversionError, RefusedError
from engine.schema import DEFAULT_VALUE_KEY


def declared_default(field: pa.Field, column: str, context: ErrorContext = NOWHERE) -> pa.Scalar | None:
    """Return the default that the field's metadata declares, if any.

    Raises:
        ValueConversionError: If its text is not a value of the column's type.
        SchemaConflictError: If no text is a value of the column's type.
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
    """Return whether a required column has a default without declaring one."""
    return not (pt.is_date(type_) or pt.is_time(type_) or pt.is_timestamp(type_) or pt.is_duration(type_))


def natural_default(type_: pa.DataType) -> pa.Scalar:
    """Return zero, false or empty, as the type requires."""
    if pt.is_nested(type_):
        return pa.scalar([], type_)
    if is_bytes(type_):
        return pa.scalar(bytes(type_.byte_width) if pt.is_fixed_size_binary(type_) else b"", type_)
    if pt.is_boolean(type_):
        return pa.scalar(False, type_)
    return pa.scalar("" if is_text(type_) else 0, type_)


def missing_values(field: pa.Field, count: int, column: str, context: ErrorContext = NOWHERE) -> pa.Array:
    """Return the values of ``count`` rows that lack one.

    Raises:
        ColumnError: If ``count`` is not 0 and the column has no default.
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
    """Return the error for a required value that is missing and has no default."""
    return ColumnError(
        column,
        f"of type {field.type} is required, but a row has no value for it and the type has no default. "
        "Make the column nullable, or declare a default.",
        context,
    )
