"""The filter that a loader keeps while its reader reads.

A loader asks its filter when a column appears, which may happen in any batch. The answer depends on what the scan has
decided by then. So this filter looks up the current filter at each question, for members of maps too.
"""

from collections.abc import Callable, Sequence

import pyarrow as pa

from engine.arrow_types import members_of
from engine.projection.filter import PROJECT_NONE, ProjectedColumn
from engine.projection.list_filter import ListFilter
from engine.schema_tracker.column_filter import ColumnFilter


class LiveFilter:
    """A projection filter that delegates to the current one.

    Args:
        current: Returns the current filter for the row.
        is_shadowed: Returns whether an implicit column has the name of a reader's column.
        path: The names of the maps from the row to the members that this filter is for.
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
        """Return what the batch gets of a column.

        Raises:
            SchemaConflictError: If its type cannot become the promised one.
            ProjectionError: If its type does not suit the query.
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
