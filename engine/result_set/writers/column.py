"""Column writers: what a reader sees of a column, and what the loader sees of it.

A reader writes to :class:`ColumnWriter`, one class for all columns [result-set-loader "Writing Data to the Batch"].
It offers every way to write a value. Each writer refuses the ways that its column's type does not have.

The loader works with :class:`VectorWriter`, the writer of a column that the batch contains.
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


@dataclass(frozen=True, slots=True)
class ColumnContext:
    """What a column writer knows of its surroundings.

    Attributes:
        path: The name of the column in messages, including the columns around it, such as ``m.tags[]``.
        level: The level that says at which position to write.
        batch: The state of the active batch.
        make_column: Makes the columns inside this one.
    """

    path: str
    level: Level
    batch: BatchState
    make_column: "MakeColumn"

    def inside(self, suffix: str, level: Level) -> "ColumnContext":
        """Return the context of a column inside this one."""
        return replace(self, path=self.path + suffix, level=level)


class ColumnWriter:
    """Writer of one column, at the current row, element or entry.

    A value that is written again before the row is saved replaces the first one. A writer is the same object for all
    batches of its loader. Only a LATE column gets another writer, once its type is known.

    Every ``set_`` method raises:

    - ``ValueConversionError`` if the column's type does not have the value, or this kind of value.
    - ``ValueTooLargeError`` if the value alone exceeds the limit of a vector.
    - ``LoaderStateError`` outside a row.
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
        """Write an integer. Integer, floating-point and decimal columns take one."""
        self._refuse(value)

    def set_double(self, value: float) -> None:
        self._refuse(value)

    def set_string(self, value: str) -> None:
        self._refuse(value)

    def set_bytes(self, value: bytes) -> None:
        """Write bytes. A text column takes them if they are UTF-8."""
        self._refuse(value)

    def append_bytes(self, value: bytes) -> None:
        """Append bytes to the value of this row, which starts empty.

        Elements of an array do not support this.
        """
        self._refuse(value)

    def set_decimal(self, value: Decimal) -> None:
        self._refuse(value)

    def set_date(self, value: date) -> None:
        self._refuse(value)

    def set_time(self, value: time) -> None:
        self._refuse(value)

    def set_timestamp(self, value: datetime) -> None:
        """Write a timestamp. It has a time zone if, and only if, the column has one."""
        self._refuse(value)

    def set_interval(self, value: timedelta) -> None:
        self._refuse(value)

    def set_value(self, value: Any) -> None:
        """Write a Python value of any kind: a scalar, a list, a dictionary or None."""
        self._refuse(value)

    def column(self, key: int | str) -> "ColumnWriter":
        """Return the writer of a member of a map."""
        self._refuse_part(f"member {key!r}")

    def add_column(self, field: pa.Field) -> int:
        """Add a member to a map, and return its index."""
        self._refuse_part(f"member {field.name!r}")

    @property
    def schema(self) -> TupleSchema:
        """All members of a map, by index, projected or not."""
        self._refuse_part("members")

    def is_projected(self, name: str) -> bool:
        """Return whether the batch contains a member of this name."""
        self._refuse_part(f"member {name!r}")

    @property
    def element(self) -> "ColumnWriter":
        """The writer of an array's elements."""
        self._refuse_part("elements")

    @property
    def key(self) -> "ColumnWriter":
        """The writer of a dict's keys."""
        self._refuse_part("keys")

    @property
    def value(self) -> "ColumnWriter":
        """The writer of a dict's values."""
        self._refuse_part("values")

    def save(self) -> None:
        """End an element of an array or an entry of a dict.

        Optional in an array of scalars.
        """
        self._refuse_part("elements")

    def _refuse(self, value: object) -> NoReturn:
        raise ValueConversionError(self.path, value, self.field.type, self._batch.context)

    def _refuse_null(self) -> NoReturn:
        raise ValueConversionError(self.path, None, f"{self.field.type} and never null", self._batch.context)

    def _refuse_part(self, part: str) -> NoReturn:
        raise ValueConversionError(self.path, part, f"{self.field.type}, and has no {part}", self._batch.context)


class VectorWriter(ColumnWriter):
    """Writer of a column that the batch contains, with the operations of the loader.

    Positions are those of the column's level. A vector may be shorter than its level's position. The missing values
    are filled in at the next write or at the harvest ("last write position" in [result-set-impl]).
    """

    __slots__ = ()

    @property
    def count(self) -> int:
        """The number of positions that have a value: the last write position plus one."""
        raise NotImplementedError

    def resize(self, count: int) -> None:
        """Cut the vector off at a position, or fill it up to there."""
        raise NotImplementedError

    def harvest(self, count: int) -> pa.Array:
        """Return the first ``count`` values without a copy.

        The array owns the buffers from then on. Later values, which belong to the overflow row,
        become the first of new buffers.
        """
        raise NotImplementedError

    def measure(self, sizes: Sizes, first: int, end: int) -> None:
        """Add the sizes of a range of positions, as if missing values were filled in."""
        raise NotImplementedError

    def capacity(self, limit_bytes: int) -> int:
        """Return how many positions fit into a vector.

        Only buffers count whose size does not depend on values.
        """
        raise NotImplementedError

    def visible_field(self) -> pa.Field:
        """Return the column as the active batch shows it."""
        return self.field

    def ensure_value(self, position: int) -> None:
        """Write the default if the position has no value.

        Called only for columns in :attr:`engine.result_set.writers.levels.Level.required_columns`.
        """

    @property
    def needs_value(self) -> bool:
        """Whether a missing value has no default."""
        return False

    @property
    def element_vector(self) -> "VectorWriter | None":
        """The vector of an array's elements. None for other columns."""
        return None

    def make_visible(self) -> None:
        """Show the column in all batches to come. Called after each harvest."""
        self.added_at = ALWAYS_VISIBLE


MakeVector = Callable[[pa.Field, ColumnContext], VectorWriter]
MakeColumn = Callable[
    [pa.Field, pa.Field, ProjectionFilter, ColumnContext, VectorWriter | None], tuple[ColumnWriter, VectorWriter]
]
"""The type of :func:`engine.result_set.writers.factory.make_column`."""
