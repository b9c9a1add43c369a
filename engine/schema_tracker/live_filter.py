"""The projection filter that a loader uses while its reader reads.

A loader calls its filter when a column appears, which can happen in any batch. The result depends on the decisions
that the scan has made up to that moment. Therefore this filter determines the current filter for each call. This also
applies to the members of maps.
"""

from collections.abc import Callable, Sequence

import pyarrow as pa

from engine.arrow_types import members_of
from engine.projection.filter import PROJECT_NONE, ProjectedColumn
from engine.projection.list_filter import ListFilter
from engine.schema_tracker.column_filter import ColumnFilter


class LiveFilter:
    """Projection filter that delegates each call to the current filter.

    Args:
        current: Returns the current filter for the row.
        is_shadowed: Returns whether a column of the reader has the same name as an implicit column.
        path: The names of the enclosing maps, starting at the row.
    """

    def __init__(
        self, current: Callable[[], ColumnFilter], is_shadowed: Callable[[str], bool], path: Sequence[str] = ()
    ) -> None:
        self._current = current
        self._is_shadowed = is_shadowed
        self._path = path

    @property
    def is_empty(self) -> bool:
        return self._find_current().is_empty

    def project(self, field: pa.Field) -> ProjectedColumn:
        """Return the column as it appears in the batch.

        Raises:
            SchemaConflictError: If its values cannot be converted to the promised type.
            ProjectionError: If its type does not match the query.
        """
        if not self._path and self._is_shadowed(field.name):
            return ProjectedColumn(None, PROJECT_NONE)
        projected = self._find_current().project(field)
        if projected.field is None or members_of(projected.field.type) is None:
            return projected
        path = [*self._path, projected.field.name]
        return ProjectedColumn(projected.field, LiveFilter(self._current, self._is_shadowed, path))

    def _find_current(self) -> ColumnFilter | ListFilter:
        current: ColumnFilter | ListFilter = self._current()
        for name in self._path:
            current = current.at(name)
        return current
