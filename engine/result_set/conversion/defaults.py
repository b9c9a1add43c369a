"""What stands for a value that a row does not have (seed 000, "Building the Schema").

| column | a missing value is |
| --- | --- |
| nullable | null |
| required, with a declared default | that |
| required number, boolean, text, bytes | zero, false, empty |
| required date, time, timestamp, interval | an error: none would be right |
| required map | a map of what its members get |
| list or dict that is not nullable | empty |
"""

import pyarrow as pa
import pyarrow.types as pt

from engine.context import ErrorContext
from engine.errors import NOWHERE, ColumnError, SchemaConflictError, ValueConversionError
from engine.result_set.conversion.casts import cast_values
from engine.result_set.conversion.errors import NotOfferedError, RefusedError
from engine.schema import DEFAULT_VALUE_KEY


def declared_default(field: pa.Field, column: str, context: ErrorContext = NOWHERE) -> pa.Scalar | None:
    """The default that the field's metadata declares; None without one.

    Raises:
        ValueConversionError: Its text is not a value of the column's type.
        SchemaConflictError: No text can be one.
    """
    text = (field.metadata or {}).get(DEFAULT_VALUE_KEY)
    if text is None:
        return None
    try:
        return cast_values(pa.array([text.decode()], pa.string()), field.type, column)[0]
    except RefusedError as error:
        raise ValueConversionError(column, error.value, error.wanted, context) from None
    except NotOfferedError as error:
        raise SchemaConflictError(
            column, offered="a text as default", promised=error.promised, context=context
        ) from None


def has_natural_default(type_: pa.DataType) -> bool:
    """Whether a required column of the type has a value for what is missing without declaring one."""
    return not (pt.is_date(type_) or pt.is_time(type_) or pt.is_timestamp(type_) or pt.is_duration(type_))


def missing_values(field: pa.Field, count: int, column: str, context: ErrorContext = NOWHERE) -> pa.Array:
    """The values of ``count`` rows that have none.

    Raises: ColumnError if there are rows, and nothing can stand for their values.
    """
    if field.nullable or count == 0:
        return pa.nulls(count, field.type)
    declared = declared_default(field, column, context)
    if declared is not None:
        return pa.repeat(declared, count)
    if pt.is_struct(field.type):
        members = [field.type.field(index) for index in range(field.type.num_fields)]
        arrays = [missing_values(member, count, f"{column}.{member.name}", context) for member in members]
        return pa.Array.from_buffers(field.type, count, [None], 0, children=arrays)
    if not has_natural_default(field.type):
        raise missing_value_error(field, column, context)
    return pa.repeat(natural_default(field.type), count)


def natural_default(type_: pa.DataType) -> pa.Scalar:
    """Zero, false or empty."""
    if pt.is_nested(type_):
        return pa.scalar([], type_)
    if pt.is_fixed_size_binary(type_) and not pt.is_decimal(type_):
        return pa.scalar(bytes(type_.byte_width), type_)
    if pt.is_binary(type_) or pt.is_large_binary(type_):
        return pa.scalar(b"", type_)
    if pt.is_boolean(type_):
        return pa.scalar(False, type_)
    return pa.scalar("" if pt.is_string(type_) or pt.is_large_string(type_) else 0, type_)


def missing_value_error(field: pa.Field, column: str, context: ErrorContext) -> ColumnError:
    return ColumnError(
        column,
        f"of type {field.type} is required, but a row has no value for it and no value can stand for one. "
        "Make the column nullable, or declare a default.",
        context,
    )
