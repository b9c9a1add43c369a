"""Which writer a column gets: by the type that the reader offers and the one that is promised."""

import pyarrow as pa
import pyarrow.types as pt

from engine.errors import SchemaConflictError
from engine.projection.filter import ProjectionFilter
from engine.result_set import arrays, maps, scalars, temporal, text, wide
from engine.result_set.conversion import is_convertible
from engine.result_set.converting import ConvertingWriter
from engine.result_set.writer import ColumnWriter, MakeWriter, Place, VectorWriter


def make_column(
    offered: pa.Field,
    promised: pa.Field,
    members: ProjectionFilter,
    place: Place,
    *,
    kept: VectorWriter | None = None,
) -> tuple[ColumnWriter, VectorWriter]:
    """What the reader writes to, and what keeps it; mostly the same object.

    Args:
        offered: The column as the reader knows it.
        promised: The column as the batch is to have it.
        members: The filter for members of maps in the column.
        place: Of the column.
        kept: What keeps it, if that is there already.

    Raises:
        SchemaConflictError: Values of the one type cannot become values of the other.
    """
    if not _can_become(offered.type, promised.type):
        raise SchemaConflictError(place.path, offered=offered.type, promised=promised.type, context=place.batch.context)
    if kept is None:
        kept = _make_vector(offered, promised, members, place)
    if pt.is_nested(promised.type) or pt.is_null(offered.type) or _takes_directly(offered.type, promised.type):
        return kept, kept
    return ConvertingWriter(offered, kept), kept


def _can_become(offered: pa.DataType, promised: pa.DataType) -> bool:
    if pt.is_nested(offered) != pt.is_nested(promised) and not pt.is_null(offered):
        return False
    return is_convertible(offered, promised)


def _takes_directly(offered: pa.DataType, promised: pa.DataType) -> bool:
    if pt.is_integer(offered):
        return bool(pt.is_integer(promised) or pt.is_floating(promised) or pt.is_decimal(promised))
    if pt.is_decimal(offered) and pt.is_decimal(promised):
        return True
    return bool(offered.equals(promised))


def _make_vector(offered: pa.Field, promised: pa.Field, members: ProjectionFilter, place: Place) -> VectorWriter:
    type_ = promised.type
    inner = promised.type if pt.is_null(offered.type) else offered.type
    if pt.is_struct(type_):
        return maps.MapWriter(promised, place, inner, members)
    if pt.is_map(type_):
        return arrays.DictWriter(promised, place, inner)
    if pt.is_list(type_) or pt.is_large_list(type_):
        return arrays.ArrayWriter(promised, place, inner.value_field, members)
    make = _scalar_writer(type_)
    if make is None:
        raise SchemaConflictError(
            place.path, offered=type_, promised="a type that Spark can hold", context=place.batch.context
        )
    return make(promised, place)


def _scalar_writer(type_: pa.DataType) -> MakeWriter | None:
    if pt.is_integer(type_):
        return scalars.int_writer(type_)
    for is_it, make in _WRITERS:
        if is_it(type_):
            return make
    return None


_WRITERS = (
    (pt.is_null, scalars.LateWriter),
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
