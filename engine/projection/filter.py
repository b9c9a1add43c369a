"""Which of a reader's columns are materialised: what a result set loader asks about each column it is told of.

Seed 002, ``projectionFilter``: "the first line of defense for schema conflicts". The loader asks with the
column as the reader offers it; the filter answers with what to make of it, or refuses.
"""

from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class ProjectedColumn:
    """What to make of a column that a reader offers.

    Attributes:
        field: The column as it is to be in the batch: name in the letter case of the output, and its type; the
            loader converts what the reader writes. None if the column is not wanted: it gets a dummy writer.
        members: The filter for the members of a map (or the elements of an array of maps).
    """

    field: pa.Field | None
    members: "ProjectionFilter"


class ProjectionFilter(Protocol):
    def project(self, field: pa.Field) -> ProjectedColumn:
        """What to make of the column that a reader offers.

        Raises: SchemaConflictError if its type cannot become the one that the scan has promised; ProjectionError if
        the query asks for an element or a member that such a column does not have.
        """
        ...

    @property
    def is_empty(self) -> bool:
        """Whether no column at all can be wanted, as for ``COUNT(*)``: a reader may then only count rows."""
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
