"""The project list of a query, before the columns of the data are known.

There are three types of project lists [scan-schema-tracker "Projection Types"]: ``SELECT *``, ``SELECT a, b``, and a
list without columns, for example for ``COUNT(*)``.

Guarantees:

1. Each column is listed once, with the case and at the position of its first occurrence.
2. With a wildcard, every column is selected as a whole. Columns that are named in addition to the wildcard keep their
   position before or after the wildcard, and the type that their path requires.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Self

from engine.projection.path import ProjectedPath, merge_by_name
from engine.schema import fold_case

WILDCARD = "*"


class ProjectionType(Enum):
    """Type of a project list: all columns, some columns or no columns."""

    ALL = "all columns"
    SOME = "named columns"
    NONE = "no columns"


@dataclass(frozen=True, slots=True)
class ProjectionList:
    """A parsed project list.

    Attributes:
        columns: The columns that are named.
        wildcard_at: The number of named columns before the wildcard. None if there is no wildcard.
    """

    columns: Sequence[ProjectedPath] = ()
    wildcard_at: int | None = None
    _indexes: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        indexes = {fold_case(column.name): index for index, column in enumerate(self.columns)}
        object.__setattr__(self, "_indexes", indexes)

    @classmethod
    def parse(cls, elements: Iterable[str]) -> Self:
        """Parse the elements of a project list. Each element is a path or ``*``.

        Raises:
            ProjectionError: If an element is malformed.
        """
        before: list[ProjectedPath] = []
        after: list[ProjectedPath] | None = None
        for element in elements:
            if element == WILDCARD:
                after = [] if after is None else after
            else:
                (before if after is None else after).append(ProjectedPath.parse(element))
        if after is None:
            return cls(merge_by_name(before))
        return cls(tuple(path.whole() for path in merge_by_name([*before, *after])), len(merge_by_name(before)))

    @classmethod
    def of_members(cls, path: ProjectedPath) -> Self:
        """Return the part of a map that a path selects, as the project list of the map."""
        return cls(path.members, len(path.members) if path.is_whole else None)

    @property
    def type(self) -> ProjectionType:
        """The type of the list: all columns, some columns or no columns."""
        if self.wildcard_at is not None:
            return ProjectionType.ALL
        return ProjectionType.SOME if self.columns else ProjectionType.NONE

    def find(self, name: str) -> ProjectedPath | None:
        """Return the part of a column that is selected. Return None if there is none."""
        index = self._indexes.get(fold_case(name))
        if index is not None:
            return self.columns[index]
        return None if self.wildcard_at is None else ProjectedPath(name)


EVERYTHING = ProjectionList((), 0)
NOTHING = ProjectionList()
