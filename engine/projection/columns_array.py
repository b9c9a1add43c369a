"""The selection from ``columns``, the array of all fields of a row.

A query can select single fields, such as ``columns[1]``.

Only readers of text without a header have this column [scan-framework "Selection List Processing"]. For other readers
``columns`` is an ordinary name.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from engine.context import ErrorContext
from engine.errors import NOWHERE, ProjectionError
from engine.projection.project_list import ProjectionList, ProjectionType
from engine.schema import fold_case


@dataclass(frozen=True, slots=True)
class ColumnsArraySelection:
    """What a query selects from ``columns``.

    Attributes:
        is_projected: Whether any field is selected. If not, rows are only counted.
        indexes: The indexes of the selected fields, ascending. None for all fields.
    """

    is_projected: bool
    indexes: Sequence[int] | None = None


def select_columns_array(wanted: ProjectionList, context: ErrorContext = NOWHERE) -> ColumnsArraySelection:
    """Return what a project list selects from a table with only ``columns``.

    Args:
        wanted: The project list without implicit columns.
        context: What is scanned, for errors.

    Raises:
        ProjectionError: If the list selects another column, or a part of ``columns`` that a row of text does not have.
    """
    for path in wanted.columns:
        if fold_case(path.name) != "columns":
            problem = "does not exist: the file has no names, only the array `columns`"
        elif path.is_map or path.dimensions > 1:
            problem = "does not exist: each element of `columns` is one text"
        else:
            continue
        raise ProjectionError(f"{context}column {str(path)!r} {problem}. Select columns[0], columns[1] …")
    if wanted.type is not ProjectionType.SOME:
        return ColumnsArraySelection(wanted.type is ProjectionType.ALL)
    return ColumnsArraySelection(True, wanted.columns[0].indexes)
