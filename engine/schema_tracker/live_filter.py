"""The filter that a reader's loader holds for as long as the reader reads.

Why it exists: a loader asks when a column appears, and in a late-schema file columns appear in any batch. The answer
depends on what the scan has committed to by then, for members of maps as for columns of the row.
"""

from collections.abc import Callable, Sequence

import pyarrow as pa

from engine.arrow_types import members_of
from engine.projection.filter import PROJECT_NONE, ProjectedColumn, ProjectionFilter
from engine.projection.list_filter import ListFilter
from engine.schema_tracker.column_filter import ColumnFilter


class LiveFilter:
    """A ProjectionFilter that asks the filter of the moment."""

    def __init__(
        self, current: Callable[[], ColumnFilter], is_shadowed: Callable[[str], bool], path: Sequence[str] = ()
    ) -> None:
        """``path`` names the maps from the row to the one that this filter is for."""
        self._current = current
        self._is_shadowed = is_shadowed
        self._path = path

    @property
    def is_empty(self) -> bool:
        return self._here().is_empty

    def project(self, field: pa.Field) -> ProjectedColumn:
        """Raises: SchemaConflictError, ProjectionError."""
        if not self._path and self._is_shadowed(field.name):
            return ProjectedColumn(None, PROJECT_NONE)
        projected = self._here().project(field)
        if projected.field is None or members_of(projected.field.type) is None:
            return projected
        members: ProjectionFilter = LiveFilter(self._current, self._is_shadowed, [*self._path, projected.field.name])
        return ProjectedColumn(projected.field, members)

    def _here(self) -> ColumnFilter | ListFilter:
        here: ColumnFilter | ListFilter = self._current()
        for name in self._path:
            here = here.at(name)
        return here
