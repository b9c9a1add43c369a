"""The columns of a tuple. A tuple is a row or a map.

The reader and the batch have different views of these columns. The reader accesses a writer for each column, by index
or by name. The batch contains one vector for each projected column.
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
    """Columns of a row or a map.

    Attributes:
        schema: All columns that the reader added, in the order of their indexes, projected or not.
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
        """Add the initial members of a map.

        These members are visible whenever the map is visible. Only members that are added later can be hidden.

        Args:
            fields: The promised members, in the order of the batch.
            offered: The members that the reader provides. They may include members that are not promised, and some
                promised members may be absent.
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
        """Add a column, or set the type of a LATE column.

        Returns:
            The index of the column.

        Raises:
            DuplicateColumnError: If the column already exists.
            SchemaConflictError: If values of the column's type cannot be converted to the promised type.
            ColumnError: If the column is required and has no default value, but there are earlier rows.
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
        """Whether one of the columns must have a value because it has no default value."""
        return any(vector.needs_value for vector in self._vectors.values())

    def is_projected(self, name: str) -> bool:
        """Return whether the batch contains a column with this name."""
        index = self.schema.index_of(name)
        if index is None:
            return self._filter.project(pa.field(name, pa.null())).field is not None
        return not isinstance(self._writers[index], DummyWriter)

    def vector(self, name: str) -> VectorWriter | None:
        """Return the vector of a column. None if the column is not projected."""
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
        """Raise an error if earlier rows need a value for a column without a default value."""
        if vector.needs_value and self._count_complete() > 0:
            self._context.level.required_columns.remove(vector)
            raise missing_value_error(vector.field, vector.path, self._batch.context)

    def _add_vector(self, vector: VectorWriter) -> None:
        """Add a vector. It replaces the vector of a LATE column with the same name.

        The replaced vector contains only nulls.
        """
        self._vectors[fold_case(vector.field.name)] = vector

    def _inside(self, field: pa.Field) -> ColumnContext:
        return self._context.inside(field.name, self._context.level)

    def visible_fields(self) -> list[pa.Field]:
        """Return the columns that are visible in the active batch."""
        vectors = self._vectors.values()
        return [vector.visible_field() for vector in vectors if not self._batch.hides(vector.added_at)]

    def harvest(self, count: int) -> list[pa.Array]:
        """Remove ``count`` values from each vector, and return the values of visible columns."""
        arrays = [(vector, vector.harvest(count)) for vector in self._vectors.values()]
        return [array for vector, array in arrays if not self._batch.hides(vector.added_at)]

    def truncate(self, count: int) -> None:
        """Remove all values at or after position ``count``."""
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
        """Show all columns in the following batches. See :meth:`VectorWriter.make_visible`."""
        for vector in self._vectors.values():
            vector.make_visible()

    def __len__(self) -> int:
        return len(self._writers)

    def __iter__(self) -> Iterator[ColumnWriter]:
        return iter(self._writers)
