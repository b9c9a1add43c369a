"""The columns of a tuple, which is a row or a map.

A tuple has two views of its columns. The reader finds its writers by index and name. The batch contains one vector
for each projected column.
"""

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa

from engine.errors import ColumnError, DuplicateColumnError
from engine.projection.filter import ProjectionFilter
from engine.result_set.batch_state import ALWAYS_VISIBLE
from engine.result_set.conversion.defaults import missing_value_error
from engine.result_set.sizes import Sizes
from engine.result_set.storage_types import to_storage_type
from engine.result_set.writers.column import ColumnContext, ColumnWriter, VectorWriter
from engine.result_set.writers.dummy import DummyWriter
from engine.schema import TupleSchema, fold_case, is_late


class TupleColumns:
    """The columns of one tuple.

    Attributes:
        schema: All columns that the reader added, by index, projected or not.
    """

    __slots__ = ("_batch", "_context", "_count_complete", "_filter", "_promised", "_vectors", "_writers", "schema")

    def __init__(self, context: ColumnContext, projection: ProjectionFilter, count_complete: Callable[[], int]) -> None:
        """Create a tuple without columns.

        Args:
            context: The context of the columns. Its path is the prefix of their paths.
            projection: Decides which columns the batch contains.
            count_complete: Returns how many positions of the level are complete.
        """
        self.schema = TupleSchema()
        self._context = context
        self._batch = context.batch
        self._filter = projection
        self._count_complete = count_complete
        self._writers: list[ColumnWriter] = []
        self._vectors: dict[str, VectorWriter] = {}
        self._promised: dict[str, VectorWriter] = {}

    def add_promised(self, fields: Sequence[pa.Field], offered: TupleSchema) -> None:
        """Add the first members of a map.

        These members are visible whenever the map is. Only members that are added later can be hidden.

        Args:
            fields: The promised members, in the order of the batch.
            offered: The members that the reader offers: some of the promised ones, and perhaps others.
        """
        for field in fields:
            _, vector = self._context.make_column(
                offered.find(field.name) or field,
                field,
                self._filter.project(field).members,
                self._inside(field),
                None,
            )
            self._add_vector(vector)
            self._promised[fold_case(field.name)] = vector
        for field in offered:
            self.add(field)
        for vector in self._vectors.values():
            vector.added_at = ALWAYS_VISIBLE

    def column(self, key: int | str) -> ColumnWriter:
        """Return the writer of a column.

        Raises:
            ColumnError: If the column does not exist.
        """
        index = key if isinstance(key, int) else self.schema.index_of(key)
        if index is None or not -1 < index < len(self._writers):
            raise ColumnError(f"{self._context.path}{key}", "was not added to the loader.", self._batch.context)
        return self._writers[index]

    def add(self, field: pa.Field) -> int:
        """Add a column, or give a LATE column its type.

        Returns:
            The index of the column.

        Raises:
            DuplicateColumnError: If the column exists already.
            SchemaConflictError: If the type cannot become the promised one.
            ColumnError: If the column is required, but earlier rows lack it and no default exists.
        """
        index = self.schema.index_of(field.name)
        if index is not None:
            first = self.schema.fields[index]
            if not is_late(first) or is_late(field):
                path = self._context.path
                raise DuplicateColumnError(f"{path}{first.name}", f"{path}{field.name}", self._batch.context)
        writer = self._make_writer(field)
        self.schema = self.schema.with_field(field)
        self._batch.added_columns += 1
        if index is None:
            self._writers.append(writer)
            return len(self._writers) - 1
        self._writers[index] = writer
        return index

    @property
    def needs_value(self) -> bool:
        """Whether a tuple without values lacks a value that has no default."""
        return any(vector.needs_value for vector in self._vectors.values())

    def is_projected(self, name: str) -> bool:
        """Return whether the batch contains a column of this name."""
        index = self.schema.index_of(name)
        if index is None:
            return self._filter.project(pa.field(name, pa.null())).field is not None
        return not isinstance(self._writers[index], DummyWriter)

    def vector(self, name: str) -> VectorWriter | None:
        """Return the vector of a projected column."""
        return self._vectors.get(fold_case(name))

    def _make_writer(self, field: pa.Field) -> ColumnWriter:
        projected = self._filter.project(field)
        if projected.field is None:
            return DummyWriter(field, self._inside(field))
        wanted = projected.field.with_type(to_storage_type(projected.field.type))
        name, context = fold_case(wanted.name), self._inside(wanted)
        promised = self._promised.get(name)
        stored = wanted if promised is None else promised.field
        writer, vector = self._context.make_column(field, stored, projected.members, context, promised)
        if promised is None:
            self._check_earlier_rows(vector)
            if name in self._vectors:
                vector.added_at = self._vectors[name].added_at
            self._add_vector(vector)
        return writer

    def _check_earlier_rows(self, vector: VectorWriter) -> None:
        """Refuse a column if earlier rows lack its value and no default exists."""
        if vector.needs_value and self._count_complete() > 0:
            self._context.level.required_columns.remove(vector)
            raise missing_value_error(vector.field, vector.path, self._batch.context)

    def _add_vector(self, vector: VectorWriter) -> None:
        """Add a vector, or replace the LATE one of the same name.

        A replaced vector contained only nulls.
        """
        self._vectors[fold_case(vector.field.name)] = vector

    def _inside(self, field: pa.Field) -> ColumnContext:
        return self._context.inside(field.name, self._context.level)

    def visible_fields(self) -> list[pa.Field]:
        """Return the columns that the active batch shows."""
        vectors = self._vectors.values()
        return [vector.visible_field() for vector in vectors if not self._batch.hides(vector.added_at)]

    def harvest(self, count: int) -> list[pa.Array]:
        """Take ``count`` values out of each vector, and return those of visible columns."""
        arrays = [(vector, vector.harvest(count)) for vector in self._vectors.values()]
        return [array for vector, array in arrays if not self._batch.hides(vector.added_at)]

    def truncate(self, count: int) -> None:
        """Remove the values from position ``count`` on."""
        for vector in self._vectors.values():
            if vector.count > count:
                vector.resize(count)

    def measure(self, sizes: Sizes, first: int, end: int) -> None:
        """Add the sizes of a range of positions. See :meth:`VectorWriter.measure`."""
        for vector in self._vectors.values():
            vector.measure(sizes, first, end)

    def capacity(self, limit_bytes: int) -> int:
        """Return how many positions fit into the smallest vector.

        See :meth:`VectorWriter.capacity`.
        """
        return min((vector.capacity(limit_bytes) for vector in self._vectors.values()), default=limit_bytes * 8)

    def make_visible(self) -> None:
        """Show all columns in the batches to come. See :meth:`VectorWriter.make_visible`."""
        for vector in self._vectors.values():
            vector.make_visible()

    def __len__(self) -> int:
        return len(self._writers)

    def __iter__(self) -> Iterator[ColumnWriter]:
        return iter(self._writers)
