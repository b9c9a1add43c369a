"""What a client sees of a column: one class for all columns (seed 000, "Writing Data to the Batch").

There is no need to know more of a writer than that it is one: each offers all ways to write, and refuses those
that its column's type does not have.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, NoReturn

import pyarrow as pa

from engine.errors import ValueConversionError
from engine.result_set.active import SETTLED, ActiveBatch
from engine.result_set.levels import Level
from engine.result_set.sizes import Sizes
from engine.schema import TupleSchema


@dataclass(frozen=True, slots=True)
class Place:
    """Where a column is.

    Attributes:
        path: Its name in messages, with the names of what is around it.
        level: Which says the position.
        batch: Of the loader.
    """

    path: str
    level: Level
    batch: ActiveBatch


class ColumnWriter:
    """Writes one column, at the row, element or entry where its surroundings stand.

    A value written again before the row is saved replaces the first one. A writer stays the same object over all
    batches of its loader; the column of a LATE one gets another writer once its type is named.

    Raises, in every ``set_`` method:
        ValueConversionError: The value, or this kind of value, is not one of the column's type.
        ValueTooLargeError: The value alone is larger than a vector may be.
        LoaderStateError: It is written outside a row.
    """

    __slots__ = ("_batch", "_level", "added_at", "field", "path")

    def __init__(self, field: pa.Field, place: Place) -> None:
        self.field = field
        self.path = place.path
        self.added_at = place.batch.rows
        self._level = place.level
        self._batch = place.batch

    def set_null(self) -> None:
        self._refuse(None)

    def set_boolean(self, value: bool) -> None:
        self._refuse(value)

    def set_int(self, value: int) -> None:
        """For integers of any width, floating point and decimal columns."""
        self._refuse(value)

    def set_double(self, value: float) -> None:
        self._refuse(value)

    def set_string(self, value: str) -> None:
        self._refuse(value)

    def set_bytes(self, value: bytes) -> None:
        """For bytes; also for text, if they are UTF-8."""
        self._refuse(value)

    def append_bytes(self, value: bytes) -> None:
        """Adds to the value of this row, which starts empty. Not for elements of an array."""
        self._refuse(value)

    def set_decimal(self, value: Decimal) -> None:
        self._refuse(value)

    def set_date(self, value: date) -> None:
        self._refuse(value)

    def set_time(self, value: time) -> None:
        self._refuse(value)

    def set_timestamp(self, value: datetime) -> None:
        """With a zone for a column with one, without for one without."""
        self._refuse(value)

    def set_interval(self, value: timedelta) -> None:
        self._refuse(value)

    def set_value(self, value: Any) -> None:
        """Any Python value that the column can hold: lists and dictionaries too, None for null."""
        self._refuse(value)

    def column(self, key: int | str) -> "ColumnWriter":
        """A member of a map."""
        self._refuse_part(f"member {key!r}")

    def add_column(self, field: pa.Field) -> int:
        """A new member of a map."""
        self._refuse_part(f"member {field.name!r}")

    @property
    def schema(self) -> TupleSchema:
        """The members of a map, by index, those that are not projected too."""
        self._refuse_part("members")

    def is_projected(self, name: str) -> bool:
        """Whether a member of this name is kept."""
        self._refuse_part(f"member {name!r}")

    @property
    def element(self) -> "ColumnWriter":
        """Of an array."""
        self._refuse_part("elements")

    @property
    def key(self) -> "ColumnWriter":
        """Of a dict."""
        self._refuse_part("keys")

    @property
    def value(self) -> "ColumnWriter":
        """Of a dict."""
        self._refuse_part("values")

    def save(self) -> None:
        """Ends an element of an array or an entry of a dict. For an array of scalars it may be left out."""
        self._refuse_part("elements")

    def _refuse(self, value: object) -> NoReturn:
        raise ValueConversionError(self.path, value, self.field.type, self._batch.context)

    def _refuse_null(self) -> NoReturn:
        raise ValueConversionError(self.path, None, f"{self.field.type} and never null", self._batch.context)

    def _refuse_part(self, part: str) -> NoReturn:
        raise ValueConversionError(self.path, part, f"{self.field.type}, and has no {part}", self._batch.context)


class VectorWriter(ColumnWriter):
    """A column that is kept: what the loader does with it.

    Positions are those of the level that the column is at. A vector may be behind: what it lacks is filled when
    the next value is written, or when it is taken (seed 003, "last write position").
    """

    __slots__ = ()

    @property
    def count(self) -> int:
        """How many positions have a value; the last write position and one."""
        raise NotImplementedError

    def resize(self, count: int) -> None:
        """Cuts off what is behind, or fills up."""
        raise NotImplementedError

    def take(self, count: int) -> pa.Array:
        """Hands over the first values without a copy; those behind, the overflow row's, become the first.

        The buffers are the array's from then on, and the vector goes on with others.
        """
        raise NotImplementedError

    def measure(self, sizes: Sizes, first: int, end: int) -> None:
        """Adds what a range takes, as if it were filled up."""
        raise NotImplementedError

    def capacity(self, limit_bytes: int) -> int:
        """How many positions fit into a vector, by those of its buffers whose size does not depend on values."""
        raise NotImplementedError

    def visible_field(self) -> pa.Field:
        """The column as the active batch shows it."""
        return self.field

    def complete(self, position: int) -> None:
        """See :class:`engine.result_set.levels.Completed`; asked only of columns that are registered there."""

    @property
    def needs_value(self) -> bool:
        """Whether nothing can stand for a missing value."""
        return False

    @property
    def held(self) -> "VectorWriter | None":
        """What keeps the elements of an array; None for other columns."""
        return None

    def settle(self) -> None:
        """The batch is harvested: what was shown once is shown from here on, what was hidden comes next."""
        self.added_at = SETTLED


MakeWriter = Callable[[pa.Field, Place], VectorWriter]
