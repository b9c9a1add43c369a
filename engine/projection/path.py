"""Paths of a project list: columns, members of maps, and elements of arrays.

The syntax of a path is that of SQL:

    path  = name { "." name | "[" digits "]" }
    name  = any characters but . ` [ ] * and white space, or any characters between backquotes
            (a backquote among them is doubled)

A path does not contain types. ``m.a`` is either a member of a map, or the value of a dict at the key ``a``. ``a[1]`` is
either an element of an array, or the value of a dict at the key 1. :mod:`engine.projection.list_filter` checks
whether the type of a column matches its path.

Guarantees:

1. A name that :func:`quote_name` wrote is parsed back to the same name, for all characters.
2. Two paths of the same column select the union of both, in any order. The case of the name is that of the first path.
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
    """The part of a column, or of a map member, that a query selects.

    Attributes:
        name: The name, in the case that the query uses.
        members: The members that the query names. In an array, these are members of each element.
        is_whole: Whether members that are not named are also selected.
        dimensions: The number of indexes after the name. The array must have at least this number of dimensions.
        indexes: The first index of each path, in ascending order. None if all elements are selected.
    """

    name: str
    members: Sequence["ProjectedPath"] = ()
    is_whole: bool = True
    dimensions: int = 0
    indexes: Sequence[int] | None = None
    _indexes_by_name: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        indexes = {fold_case(member.name): index for index, member in enumerate(self.members)}
        object.__setattr__(self, "_indexes_by_name", indexes)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse an element of a project list.

        Raises:
            ProjectionError: If the text is malformed, or names too many members.
        """
        first = _FIRST.match(text)
        if first is None:
            raise _malformed_path_error(text, 0)
        steps: list[tuple[str, list[int]]] = [(_parse_name(first), [])]
        position = first.end()
        while position < len(text):
            step = _NEXT.match(text, position)
            if step is None:
                raise _malformed_path_error(text, position)
            if step["index"] is None:
                steps.append((_parse_name(step), []))
            else:
                steps[-1][1].append(_parse_index(step["index"], text))
            position = step.end()
        if len(steps) > _MAX_DEPTH:
            raise ProjectionError(
                f"Column {text!r} of the project list has {len(steps)} names. The maximum is {_MAX_DEPTH}."
            )
        return cls._nest(steps)

    @classmethod
    def _nest(cls, steps: Sequence[tuple[str, list[int]]]) -> Self:
        (name, indexes), *rest = steps
        members = (cls._nest(rest),) if rest else ()
        return cls(name, members, not rest, len(indexes), tuple(indexes[:1]) or None)

    @property
    def is_array(self) -> bool:
        """Whether the path has an index. In this case, the column must be an array or a dict."""
        return self.dimensions > 0

    @property
    def is_map(self) -> bool:
        """Whether the path names members. In this case, the column must be a map or a dict."""
        return bool(self.members) or not self.is_whole

    @property
    def is_simple(self) -> bool:
        """Whether the path is only a name. In this case, the column may have any type."""
        return not self.is_array and not self.is_map

    def member(self, name: str) -> "ProjectedPath | None":
        """Return the part of a member that is selected. Return None if there is none."""
        index = self._indexes_by_name.get(fold_case(name))
        if index is not None:
            return self.members[index]
        return ProjectedPath(name) if self.is_whole else None

    def whole(self) -> "ProjectedPath":
        """Return the path with the whole column selected.

        The members and dimensions of the path, which restrict the types of the column, are kept.
        """
        members = tuple(member.whole() for member in self.members)
        return ProjectedPath(self.name, members, True, self.dimensions, None)

    def __str__(self) -> str:
        """Return the path for error messages, with only one of its indexes and one of its members."""
        text = quote_name(self.name)
        if self.dimensions:
            text += f"[{0 if self.indexes is None else self.indexes[0]}]" + "[0]" * (self.dimensions - 1)
        return f"{text}.{self.members[0]}" if self.members else text


def quote_name(name: str) -> str:
    """Return a name as it is written in a path, with backquotes if necessary."""
    return name if _PLAIN.fullmatch(name) else f"`{name.replace('`', '``')}`"


def merge_by_name(paths: Iterable[ProjectedPath]) -> tuple[ProjectedPath, ...]:
    """Merge the paths of a tuple that have the same name. See guarantee 2.

    Returns:
        One path for each name, in the order of the first occurrences.
    """
    by_name: dict[str, list[ProjectedPath]] = {}
    for path in paths:
        by_name.setdefault(fold_case(path.name), []).append(path)
    return tuple(same[0] if len(same) == 1 else _merge(same) for same in by_name.values())


def _merge(paths: Sequence[ProjectedPath]) -> ProjectedPath:
    indexes = [path.indexes for path in paths if path.indexes is not None]
    return ProjectedPath(
        paths[0].name,
        merge_by_name(chain.from_iterable(path.members for path in paths)),
        any(path.is_whole for path in paths),
        max(path.dimensions for path in paths),
        tuple(sorted(set(chain.from_iterable(indexes)))) if len(indexes) == len(paths) else None,
    )


def _parse_name(step: re.Match[str]) -> str:
    return step["plain"] or step["quoted"].replace("``", "`")


def _parse_index(digits: str, text: str) -> int:
    index = int(digits) if len(digits) <= len(str(_MAX_INDEX)) else _MAX_INDEX + 1
    if index > _MAX_INDEX:
        raise ProjectionError(
            f"Column {text!r} of the project list has the index {digits}. The maximum is {_MAX_INDEX}."
        )
    return index


def _malformed_path_error(text: str, position: int) -> ProjectionError:
    return ProjectionError(
        f"Column {text!r} of the project list is malformed at character {position + 1}. Separate names with "
        "dots, write indexes in brackets, such as m.a[1], and quote other names with backquotes."
    )
