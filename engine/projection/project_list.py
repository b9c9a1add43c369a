"""The project list of a query: which columns it wants, before anyone knows what columns there are.

The three kinds are those of seed 002, "Projection Types": ``SELECT *``, ``SELECT a, b``, and ``SELECT`` of nothing,
as for ``COUNT(*)``.

Guarantees:

1. Each column stands once, in the letter case and at the place where it was first named.
2. With a wildcard every column is wanted whole. Columns named beside it stay known: with their place before or
   behind it, and with the type that their path asks for.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Self

from engine.projection.path import ProjectedPath, merge_by_name
from engine.schema import fold_case

WILDCARD = "*"


class ProjectionType(Enum):
    ALL = "all columns"
    SOME = "named columns"
    NONE = "no columns"


@dataclass(frozen=True, slots=True)
class ProjectionList:
    """Immutable; :data:`EVERYTHING` and :data:`NOTHING` are two of them.

    Attributes:
        columns: Named explicitly.
        wildcard_at: How many of these stand before the wildcard; None if there is none.
    """

    columns: Sequence[ProjectedPath] = ()
    wildcard_at: int | None = None
    _places: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        places = {fold_case(column.name): place for place, column in enumerate(self.columns)}
        object.__setattr__(self, "_places", places)

    @classmethod
    def parse(cls, elements: Iterable[str]) -> Self:
        """Of the elements of a project list, each a path or ``*``.

        Raises:
            ProjectionError: An element cannot be read.
        """
        before: list[ProjectedPath] = []
        behind: list[ProjectedPath] | None = None
        for element in elements:
            if element == WILDCARD:
                behind = [] if behind is None else behind
            else:
                (before if behind is None else behind).append(ProjectedPath.parse(element))
        if behind is None:
            return cls(merge_by_name(before))
        return cls(tuple(path.whole() for path in merge_by_name([*before, *behind])), len(merge_by_name(before)))

    @classmethod
    def of_members(cls, path: ProjectedPath) -> Self:
        """What a path wants of the map that it names, as a project list of that map."""
        return cls(path.members, len(path.members) if path.is_whole else None)

    @property
    def type(self) -> ProjectionType:
        if self.wildcard_at is not None:
            return ProjectionType.ALL
        return ProjectionType.SOME if self.columns else ProjectionType.NONE

    def find(self, name: str) -> ProjectedPath | None:
        """What is wanted of a column; None if nothing is."""
        place = self._places.get(fold_case(name))
        if place is not None:
            return self.columns[place]
        return None if self.wildcard_at is None else ProjectedPath(name)


EVERYTHING = ProjectionList((), 0)
NOTHING = ProjectionList()
