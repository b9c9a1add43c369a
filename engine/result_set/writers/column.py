"""Base classes of column writers.

A reader writes values through :class:`ColumnWriter`. This class is used for all columns, and has a method for every
kind of value [result-set-loader "Writing Data to the Batch"]. The writer of a column rejects the methods that do not
match the type of the column.

The loader works with :class:`VectorWriter`, the writer of a column that is part of the batch.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, NoReturn

import pyarrow as pa

from engine.errors import ValueConversionError
from engine.projection.filter import ProjectionFilter
from engine.result_set.batch_state import ALWAYS_VISIBLE, BatchState
from engine.result_set.sizes import Sizes
from engine.result_set.writers.levels import Level
from engine.schema import TupleSchema
from engine.type_names import type_name


@dataclass(frozen=True, slots=True)
class ColumnContext:
    """Context in which a column writer is created.

    Attributes:
        path: The path of the column for error messages. It includes the enclosing columns, for example ``m.tags[]``.
        level: The level that determines the position at which to write.
        batch: The state of the active batch.
        make_column: Creates the writers of nested columns.
    """

    path: str
    level: Level
    batch: BatchState
    make_column: "MakeColumn"

    def inside(self, suffix: str, level: Level) -> "ColumnContext":
        """Return the context of a column that is nested in this column."""
        return replace(self, path=self.path + suffix, level=level)


class ColumnWriter:
    """Writer of one column, at the current row, element or entry.

    If a value is written a second time before the row is saved, it replaces the first value. The writer of a column
    remains the same object for all batches of its loader. The only exception is a LATE column, which gets a new
    writer when its type becomes known.

    Every ``set_`` method raises:

    - ``ValueConversionError`` if the value, or this kind of value, does not match the type of the column.
    - ``ValueTooLargeError`` if the value alone exceeds the limit of a vector.
    - ``LoaderStateError`` if no row has been started.
    """

    __slots__ = ("_batch", "_level", "added_at", "field", "path")

    def __init__(self, field: pa.Field, context: ColumnContext) -> None:
        self.field = field
        self.path = context.path
        self.added_at = context.batch.rows
        self._level = context.level
        self._batch = context.batch

    def set_null(self) -> None:
        self._refuse(None)

    def set_boolean(self, value: bool) -> None:
        self._refuse(value)

    def set_int(self, value: int) -> None:
        """Write an integer. Integer, floating-point and decimal columns accept integers."""
        self._refuse(value)

    def set_double(self, value: float) -> None:
        self._refuse(value)

    def set_string(self, value: str) -> None:
        self._refuse(value)

    def set_bytes(self, value: bytes) -> None:
        """Write bytes. A text column accepts bytes that are valid UTF-8."""
        self._refuse(value)

    def append_bytes(self, value: bytes) -> None:
        """Append bytes to the value of the current row. The value is empty at first.

        Elements of an array do not support this method.
        """
        self._refuse(value)

    def set_decimal(self, value: Decimal) -> None:
        self._refuse(value)

    def set_date(self, value: date) -> None:
        self._refuse(value)

    def set_time(self, value: time) -> None:
        self._refuse(value)

    def set_timestamp(self, value: datetime) -> None:
        """Write a timestamp.

        The value must have a time zone if the column has one. Otherwise it must not have a time zone.
        """
        self._refuse(value)

    def set_interval(self, value: timedelta) -> None:
        self._refuse(value)

    def set_value(self, value: Any) -> None:
        """Write a Python value: a scalar, a list, a dictionary or None."""
        self._refuse(value)

    def column(self, key: int | str) -> "ColumnWriter":
        """Return the writer of a map member."""
        self._refuse_part(f"member {key!r}")

    def add_column(self, field: pa.Field) -> int:
        """Add a member to a map and return the index of the member."""
        self._refuse_part(f"member {field.name!r}")

    @property
    def schema(self) -> TupleSchema:
        """All members of a map in the order of their indexes, projected or not."""
        self._refuse_part("members")

    def is_projected(self, name: str) -> bool:
        """Return whether the batch contains a member with this name."""
        self._refuse_part(f"member {name!r}")

    @property
    def element(self) -> "ColumnWriter":
        """The writer of the elements of an array."""
        self._refuse_part("elements")

    @property
    def key(self) -> "ColumnWriter":
        """The writer of the keys of a dict."""
        self._refuse_part("keys")

    @property
    def value(self) -> "ColumnWriter":
        """The writer of the values of a dict."""
        self._refuse_part("values")

    def save(self) -> None:
        """End an element of an array or an entry of a dict.

        In an array of scalars, calling this method is optional.
        """
        self._refuse_part("elements")

    def _refuse(self, value: object) -> NoReturn:
        raise ValueConversionError(self.path, value, self.field.type, self._batch.context)

    def _refuse_null(self) -> NoReturn:
        raise ValueConversionError(self.path, None, f"{type_name(self.field.type)} and not null", self._batch.context)

    def _refuse_part(self, part: str) -> NoReturn:
        wanted = f"{type_name(self.field.type)}, which has no {part}"
        raise ValueConversionError(self.path, part, wanted, self._batch.context)


class VectorWriter(ColumnWriter):
    """Writer of a column that is part of the batch.

    This class adds the operations of the loader. Positions are those of the column's level. A vector may contain fewer
    values than the position of its level. The missing values are then filled in at the next write or at the harvest
    ("last write position" in [result-set-impl]).
    """

    __slots__ = ()

    @property
    def count(self) -> int:
        """The number of positions that have a value: the last write position plus one."""
        raise NotImplementedError

    def resize(self, count: int) -> None:
        """Truncate the vector to ``count`` values, or fill it up to ``count`` values."""
        raise NotImplementedError

    def harvest(self, count: int) -> pa.Array:
        """Return the first ``count`` values without a copy.

        The returned array owns the buffers from then on. The values after ``count`` belong to the overflow row. They
        are moved to the start of new buffers.
        """
        raise NotImplementedError

    def measure(self, sizes: Sizes, first: int, end: int) -> None:
        """Add the sizes of a range of positions. Missing values are counted as well."""
        raise NotImplementedError

    def capacity(self, limit_bytes: int) -> int:
        """Return how many positions fit into a vector.

        Only buffers whose size does not depend on the values are taken into account.
        """
        raise NotImplementedError

    def visible_field(self) -> pa.Field:
        """Return the column as it appears in the active batch."""
        return self.field

    def ensure_value(self, position: int) -> None:
        """Write the default value if the position has no value.

        Called only for the columns in :attr:`engine.result_set.writers.levels.Level.required_columns`.
        """

    @property
    def needs_value(self) -> bool:
        """Whether each row must have a value because the column has no default value."""
        return False

    @property
    def element_vector(self) -> "VectorWriter | None":
        """The vector of the elements of an array. None for all other columns."""
        return None

    def make_visible(self) -> None:
        """Show the column in all following batches. Called after each harvest."""
        self.added_at = ALWAYS_VISIBLE


MakeVector = Callable[[pa.Field, ColumnContext], VectorWriter]
MakeColumn = Callable[
    [pa.Field, pa.Field, ProjectionFilter, ColumnContext, VectorWriter | None], tuple[ColumnWriter, VectorWriter]
]
"""The signature of :func:`engine.result_set.writers.factory.make_column`."""
