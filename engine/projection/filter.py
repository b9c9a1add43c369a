"""Projection filters, which determine the columns that a loader stores.

The loader calls the filter for each column that the reader offers. The filter either returns the column as it appears
in the batch, or raises an error. Therefore schema conflicts are detected before any value is read
[scan-schema-tracker "projectionFilter"].
"""

from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class ProjectedColumn:
    """Result of a filter for one column.

    Attributes:
        field: The column with its name and type in the batch. The loader converts the reader's values to this type.
            None if the column is not needed.
        members: The filter for the members of a map, or of the maps in an array.
    """

    field: pa.Field | None
    members: "ProjectionFilter"


class ProjectionFilter(Protocol):
    """Filter for the columns of a row, or for the members of a map."""

    def project(self, field: pa.Field) -> ProjectedColumn:
        """Return the column as it appears in the batch.

        Raises:
            SchemaConflictError: If the offered type cannot be converted to the promised type.
            ProjectionError: If the query selects an element or a member that does not exist in a column of this type.
        """
        ...

    @property
    def is_empty(self) -> bool:
        """Whether no columns are needed, for example for ``COUNT(*)``.

        In this case, a reader only needs to count rows.
        """
        ...


class _ProjectAll:
    is_empty = False

    def project(self, field: pa.Field) -> ProjectedColumn:
        return ProjectedColumn(field, self)


class _ProjectNone:
    is_empty = True

    def project(self, field: pa.Field) -> ProjectedColumn:
        return ProjectedColumn(None, self)


PROJECT_ALL: ProjectionFilter = _ProjectAll()
PROJECT_NONE: ProjectionFilter = _ProjectNone()
