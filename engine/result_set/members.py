"""The columns of a tuple, a row or a map: those of the reader by index and name, those of the batch in their order."""

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa

from engine.errors import ColumnError, DuplicateColumnError
from engine.projection.filter import ProjectionFilter
from engine.result_set import building
from engine.result_set.active import SETTLED
from engine.result_set.defaults import no_default
from engine.result_set.dummies import DummyWriter
from engine.result_set.sizes import Sizes
from engine.result_set.storable import storable
from engine.result_set.writer import ColumnWriter, Place, VectorWriter
from engine.schema import TupleSchema, folded, is_late


class Members:
    """The columns of one tuple.

    Attributes:
        schema: The columns as the reader has added them, by index; those that are not projected too.
    """

    __slots__ = ("_batch", "_filter", "_level", "_path", "_positions", "_promised", "_vectors", "_writers", "schema")

    def __init__(self, place: Place, projection: ProjectionFilter, positions: Callable[[], int]) -> None:
        """The place is that of the members; ``positions`` says how many of the level's are complete."""
        self.schema = TupleSchema()
        self._path = place.path
        self._level = place.level
        self._batch = place.batch
        self._filter = projection
        self._positions = positions
        self._writers: list[ColumnWriter] = []
        self._vectors: dict[str, VectorWriter] = {}
        self._promised: dict[str, VectorWriter] = {}

    def promise(self, fields: Sequence[pa.Field], offered: TupleSchema) -> None:
        """Begins with promised members, in their order; the reader has offered some of them, and perhaps others.

        These come and go with the map: only members that are added later may be hidden when it is shown.
        """
        for field in fields:
            _, vector = building.make_column(
                offered.find(field.name) or field, field, self._member_filter(field), self._place(field)
            )
            self._keep(vector)
            self._promised[folded(field.name)] = vector
        for field in offered:
            self.add(field)
        for vector in self._vectors.values():
            vector.added_at = SETTLED

    def column(self, key: int | str) -> ColumnWriter:
        """Raises: ColumnError if there is none."""
        index = key if isinstance(key, int) else self.schema.index_of(key)
        if index is None or not -1 < index < len(self._writers):
            raise ColumnError(f"{self._path}{key}", "was not added to the loader.", self._batch.context)
        return self._writers[index]

    def add(self, field: pa.Field) -> int:
        """Adds a column, or names the type of a LATE one.

        Raises:
            DuplicateColumnError: It is there already.
            SchemaConflictError: Its type cannot become the promised one.
            ColumnError: It is required, earlier rows lack it, and nothing can stand for their values.
        """
        index = self.schema.index_of(field.name)
        if index is not None:
            first = self.schema.fields[index]
            if not is_late(first) or is_late(field):
                raise DuplicateColumnError(
                    f"{self._path}{first.name}", f"{self._path}{field.name}", self._batch.context
                )
        writer = self._make(field)
        self.schema = self.schema.with_field(field)
        self._batch.added_columns += 1
        if index is None:
            self._writers.append(writer)
            return len(self._writers) - 1
        self._writers[index] = writer
        return index

    @property
    def needs_value(self) -> bool:
        """Whether a tuple without values has one for which nothing can stand."""
        return any(vector.needs_value for vector in self._vectors.values())

    def is_projected(self, name: str) -> bool:
        index = self.schema.index_of(name)
        if index is None:
            return self._filter.project(pa.field(name, pa.null())).field is not None
        return not isinstance(self._writers[index], DummyWriter)

    def vector(self, name: str) -> VectorWriter | None:
        """The column of the batch of this name."""
        return self._vectors.get(folded(name))

    def _make(self, field: pa.Field) -> ColumnWriter:
        projected = self._filter.project(field)
        if projected.field is None:
            return DummyWriter(field, self._place(field))
        wanted = projected.field.with_type(storable(projected.field.type))
        promised = self._promised.get(folded(wanted.name))
        place = self._place(wanted)
        if promised is not None:
            writer, _ = building.make_column(field, promised.field, projected.members, place, kept=promised)
            return writer
        writer, vector = building.make_column(field, wanted, projected.members, place)
        self._check_back_fill(vector)
        late = self._vectors.get(folded(wanted.name))
        if late is not None:
            vector.added_at = late.added_at
        self._keep(vector)
        return writer

    def _check_back_fill(self, vector: VectorWriter) -> None:
        if vector.needs_value and self._positions() > 0:
            self._level.completed.remove(vector)
            raise no_default(vector.field, vector.path, self._batch.context)

    def _keep(self, vector: VectorWriter) -> None:
        """In place of a LATE one of its name: the nulls so far are what the new one lacks, and are filled as such."""
        self._vectors[folded(vector.field.name)] = vector

    def _place(self, field: pa.Field) -> Place:
        return Place(f"{self._path}{field.name}", self._level, self._batch)

    def _member_filter(self, field: pa.Field) -> ProjectionFilter:
        return self._filter.project(field).members

    def visible(self) -> Iterator[VectorWriter]:
        """The columns that the active batch shows."""
        return (vector for vector in self._vectors.values() if not self._batch.hides(vector.added_at))

    def visible_fields(self) -> list[pa.Field]:
        return [vector.visible_field() for vector in self.visible()]

    def take(self, count: int) -> list[pa.Array]:
        """The arrays of the columns that the batch shows; the others lose as many rows."""
        taken = [(vector, vector.take(count)) for vector in self._vectors.values()]
        return [array for vector, array in taken if not self._batch.hides(vector.added_at)]

    def resize(self, count: int) -> None:
        """Cuts off what is behind a position."""
        for vector in self._vectors.values():
            if vector.count > count:
                vector.resize(count)

    def measure(self, sizes: Sizes, first: int, end: int) -> None:
        for vector in self._vectors.values():
            vector.measure(sizes, first, end)

    def capacity(self, limit_bytes: int) -> int:
        return min((vector.capacity(limit_bytes) for vector in self._vectors.values()), default=limit_bytes * 8)

    def settle(self) -> None:
        for vector in self._vectors.values():
            vector.settle()

    def __len__(self) -> int:
        return len(self._writers)

    def __iter__(self) -> Iterator[ColumnWriter]:
        return iter(self._writers)
