"""The generic selection: ``columns``, the array of all fields of a row, or some of them, such as ``columns[1]``.

Only readers of text without header have it (seed 004, "Selection List Processing"); for others ``columns`` is a
name like any other.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from engine.context import ErrorContext
from engine.errors import NOWHERE, ProjectionError
from engine.projection.path import ProjectedPath
from engine.projection.project_list import ProjectionList, ProjectionType
from engine.schema import fold_case

GENERIC_COLUMN: Final = "columns"


@dataclass(frozen=True, slots=True)
class ColumnsArraySelection:
    """What of ``columns`` is wanted.

    Attributes:
        is_projected: False if only rows are to be counted.
        indexes: Of the fields that are looked at, ascending; None for all.
    """

    is_projected: bool
    indexes: Sequence[int] | None = None


def select_columns_array(wanted: ProjectionList, context: ErrorContext = NOWHERE) -> ColumnsArraySelection:
    """What a project list wants of a table whose only column is ``columns``.

    Args:
        wanted: The columns that are to come from the reader: without implicit ones.
        context: What is scanned.

    Raises:
        ProjectionError: It wants another column, or something of ``columns`` that a row of text does not have.
    """
    for path in wanted.columns:
        _check(path, context)
    if wanted.type is not ProjectionType.SOME:
        return ColumnsArraySelection(wanted.type is ProjectionType.ALL)
    return ColumnsArraySelection(True, wanted.columns[0].indexes)


def _check(path: ProjectedPath, context: ErrorContext) -> None:
    if fold_case(path.name) != GENERIC_COLUMN:
        problem = "is not there: the file has no names, only the array `columns`. Select columns[0], columns[1] …"
    elif path.is_map or path.dimensions > 1:
        problem = "is not there: each element of `columns` is one text. Select columns[0], columns[1] …"
    else:
        return
    raise ProjectionError(f"{context}column {str(path)!r} {problem}")
