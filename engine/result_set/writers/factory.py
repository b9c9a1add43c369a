"""Selection of a column's writer by the offered and the promised type."""

import pyarrow as pa
import pyarrow.types as pt

from engine.errors import SchemaConflictError
from engine.projection.filter import ProjectionFilter
from engine.result_set.conversion.convert import is_convertible
from engine.result_set.writers import scalars, temporal, text, wide
from engine.result_set.writers.arrays import ArrayWriter
from engine.result_set.writers.column import ColumnContext, ColumnWriter, MakeVector, VectorWriter
from engine.result_set.writers.converting import ConvertingWriter
from engine.result_set.writers.dicts import DictWriter
from engine.result_set.writers.maps import MapWriter
from engine.spark_type import SparkType


def make_column(
    offered: pa.Field,
    promised: pa.Field,
    members: ProjectionFilter,
    context: ColumnContext,
    vector: VectorWriter | None,
) -> tuple[ColumnWriter, VectorWriter]:
    """Create the writer for the reader, and the vector for the batch.

    If no conversion is needed, both are the same object.

    Args:
        offered: The column as the reader provides it.
        promised: The column as it appears in the batch.
        members: The filter for the members of maps in the column.
        context: The context of the column.
        vector: The vector of the column, if it already exists.

    Raises:
        SchemaConflictError: If values of the offered type cannot be converted to the promised type.
    """
    if not _can_become(offered.type, promised.type):
        raise SchemaConflictError(
            context.path, offered=offered.type, promised=promised.type, context=context.batch.context
        )
    if vector is None:
        vector = _make_vector(offered, promised, members, context)
    if pt.is_nested(promised.type) or pt.is_null(offered.type) or _takes_directly(offered.type, promised.type):
        return vector, vector
    return ConvertingWriter(offered, context, vector), vector


def _can_become(offered: pa.DataType, promised: pa.DataType) -> bool:
    if pt.is_nested(offered) != pt.is_nested(promised) and not pt.is_null(offered):
        return False
    return is_convertible(offered, promised)


def _takes_directly(offered: pa.DataType, promised: pa.DataType) -> bool:
    """Return whether the writer of the promised type accepts offered values directly."""
    if pt.is_integer(offered):
        return bool(pt.is_integer(promised) or pt.is_floating(promised) or pt.is_decimal(promised))
    if pt.is_decimal(offered) and pt.is_decimal(promised):
        return True
    return bool(offered.equals(promised))


def _make_vector(
    offered: pa.Field, promised: pa.Field, members: ProjectionFilter, context: ColumnContext
) -> VectorWriter:
    type_ = promised.type
    inner = type_ if pt.is_null(offered.type) else offered.type
    if pt.is_struct(type_):
        return MapWriter(promised, context, inner, members)
    if pt.is_map(type_):
        return DictWriter(promised, context, inner)
    if pt.is_list(type_) or pt.is_large_list(type_):
        return ArrayWriter(promised, context, inner.value_field, type_.value_field, members)
    if isinstance(type_, SparkType):
        return scalars.NullWriter(promised, context)
    make = scalars.int_writer(type_) if pt.is_integer(type_) else _find_scalar_writer(type_)
    if make is None:
        raise SchemaConflictError(
            context.path, offered=type_, promised="a type that Spark can hold", context=context.batch.context
        )
    return make(promised, context)


def _find_scalar_writer(type_: pa.DataType) -> MakeVector | None:
    return next((make for is_kind, make in _WRITERS if is_kind(type_)), None)


_WRITERS = (
    (pt.is_null, scalars.NullWriter),
    (pt.is_boolean, scalars.BooleanWriter),
    (pt.is_float64, scalars.DoubleWriter),
    (pt.is_float32, scalars.FloatWriter),
    (pt.is_string, text.TextWriter),
    (pt.is_large_string, text.TextWriter),
    (pt.is_binary, text.BytesWriter),
    (pt.is_large_binary, text.BytesWriter),
    (pt.is_decimal, wide.DecimalWriter),
    (pt.is_fixed_size_binary, wide.FixedBytesWriter),
    (pt.is_date32, temporal.Date32Writer),
    (pt.is_date64, temporal.DateWriter),
    (pt.is_time32, temporal.Time32Writer),
    (pt.is_time64, temporal.TimeWriter),
    (pt.is_timestamp, temporal.TimestampWriter),
    (pt.is_duration, temporal.IntervalWriter),
)
