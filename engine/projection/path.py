"""What a query wants of one column: the column, some members of a map, some elements of an array.

An element of a project list is written as SQL writes it:

    path  = name { "." name | "[" digits "]" }
    name  = any characters but . ` [ ] * and white space, or any characters between backquotes
            (a backquote among them is doubled)

A path does not say what it leads through (seed 002, "the projection notation is ambiguous"): ``m.a`` is a member
of a map or the value of a dict at the key ``a``; ``a[1]`` an element of an array or the value of a dict at the
key 1. :mod:`engine.projection.list_filter` tells whether a column's type is one of these.

Guarantees:

1. A name that :func:`quote_name` wrote is read back as it was, whatever its characters.
2. What two paths of one column want together is the union, in any order (names: the letter case of the first).
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Self

from engine.errors import ProjectionError
from engine.schema import fold_case

_NAME = r"(?:`(?P<quoted>(?:[^`]|``)*)`|(?P<plain>[^.`\[\]*\s]+))"
_FIRST = re.compile(_NAME)
_NEXT = re.compile(rf"\.{_NAME}|\[(?P<index>[0-9]+)\]")
_PLAIN = re.compile(r"[^.`\[\]*\s]+")
_MAX_INDEX = 2**31 - 1
_MAX_DEPTH = 100


@dataclass(frozen=True, slots=True)
class ProjectedPath:
    """What is wanted of one column, or of one member of a map.

    Attributes:
        name: In the letter case of the query.
        members: Named with a dot. In an array: of each element.
        is_whole: All members are wanted, also those not named.
        dimensions: How many indexes stand after the name: at least so many dimensions must the array have.
        indexes: The first of these, ascending; None if all elements are wanted.
    """

    name: str
    members: Sequence["ProjectedPath"] = ()
    is_whole: bool = True
    dimensions: int = 0
    indexes: Sequence[int] | None = None
    _places: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        places = {fold_case(member.name): place for place, member in enumerate(self.members)}
        object.__setattr__(self, "_places", places)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Raises: ProjectionError."""
        first = _FIRST.match(text)
        if first is None:
            raise _malformed(text, 0)
        steps: list[tuple[str, list[int]]] = [(_name_of(first), [])]
        position = first.end()
        while position < len(text):
            step = _NEXT.match(text, position)
            if step is None:
                raise _malformed(text, position)
            if step["index"] is None:
                steps.append((_name_of(step), []))
            else:
                steps[-1][1].append(_index_of(step["index"], text))
            position = step.end()
        if len(steps) > _MAX_DEPTH:
            raise ProjectionError(
                f"Column {text!r} of the project list has {len(steps)} names; {_MAX_DEPTH} is the most."
            )
        return cls._nested(steps)

    @classmethod
    def _nested(cls, steps: Sequence[tuple[str, list[int]]]) -> Self:
        (name, indexes), *rest = steps
        members = (cls._nested(rest),) if rest else ()
        return cls(name, members, not rest, len(indexes), tuple(indexes[:1]) or None)

    @property
    def is_array(self) -> bool:
        return self.dimensions > 0

    @property
    def is_map(self) -> bool:
        return bool(self.members) or not self.is_whole

    @property
    def is_simple(self) -> bool:
        """Only a name: the column may be of any type."""
        return not self.is_array and not self.is_map

    def member(self, name: str) -> "ProjectedPath | None":
        """What is wanted of a member; None if nothing is."""
        place = self._places.get(fold_case(name))
        if place is not None:
            return self.members[place]
        return ProjectedPath(name) if self.is_whole else None

    def whole(self) -> "ProjectedPath":
        """With everything that the column holds. The paths named still say of what type it can be."""
        members = tuple(member.whole() for member in self.members)
        return ProjectedPath(self.name, members, True, self.dimensions, None)

    def __str__(self) -> str:
        """As a query could write it, for messages: with one of its indexes and one of its members."""
        place = quote_name(self.name)
        if self.dimensions:
            place += f"[{0 if self.indexes is None else self.indexes[0]}]" + "[0]" * (self.dimensions - 1)
        return f"{place}.{self.members[0]}" if self.members else place


def quote_name(name: str) -> str:
    """A name as a path writes it, between backquotes if it must be."""
    return name if _PLAIN.fullmatch(name) else f"`{name.replace('`', '``')}`"


def merge_by_name(paths: Iterable[ProjectedPath]) -> tuple[ProjectedPath, ...]:
    """Paths of one tuple, each name once, in the order in which they first appear: see guarantee 2."""
    by_name: dict[str, list[ProjectedPath]] = {}
    for path in paths:
        by_name.setdefault(fold_case(path.name), []).append(path)
    return tuple(same[0] if len(same) == 1 else _merged(same) for same in by_name.values())


def _merged(paths: Sequence[ProjectedPath]) -> ProjectedPath:
    indexes = [path.indexes for path in paths if path.indexes is not None]
    return ProjectedPath(
        paths[0].name,
        merge_by_name(chain.from_iterable(path.members for path in paths)),
        any(path.is_whole for path in paths),
        max(path.dimensions for path in paths),
        tuple(sorted(set(chain.from_iterable(indexes)))) if len(indexes) == len(paths) else None,
    )


def _name_of(step: re.Match[str]) -> str:
    return step["plain"] or step["quoted"].replace("``", "`")


def _index_of(digits: str, text: str) -> int:
    index = int(digits) if len(digits) <= len(str(_MAX_INDEX)) else _MAX_INDEX + 1
    if index > _MAX_INDEX:
        raise ProjectionError(f"Column {text!r} of the project list has the index {digits}; {_MAX_INDEX} is the last.")
    return index


def _malformed(text: str, position: int) -> ProjectionError:
    return ProjectionError(
        f"Column {text!r} of the project list cannot be read from character {position + 1} on. Write names with dots "
        "between them and indexes in brackets, such as m.a[1], and other names between backquotes."
    )
