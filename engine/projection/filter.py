"""Projection filters: which columns of a reader a loader stores, and how.

The loader calls the filter with each column that the reader offers. The filter answers with the column that the batch
gets, or refuses it. This detects schema conflicts before a value is read [scan-schema-tracker "projectionFilter"].
"""

from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class ProjectedColumn:
    """The answer of a filter about one column.

    Attributes:
        field: The column of the batch, with its name and type there. The loader converts the reader's values to this
            type. None if the column is not wanted.
        members: The filter for the members of a map, or of the maps in an array.
    """

    field: pa.Field | None
    members: "ProjectionFilter"


class ProjectionFilter(Protocol):
    """The filter for the columns of a row, or for the members of a map."""

    def project(self, field: pa.Field) -> ProjectedColumn:
        """Return what the batch gets of a column that the reader offers.

        Raises:
            SchemaConflictError: If its type cannot become the promised one.
            ProjectionError: If the query selects an element or a member that such a column does not have.
        """
        ...

    @property
    def is_empty(self) -> bool:
        """Whether no column can be wanted, as for ``COUNT(*)``.

        A reader may then only count rows.
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
