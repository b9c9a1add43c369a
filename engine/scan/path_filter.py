"""Path filters: conditions on implicit and partition columns, which exclude whole files before any of them is opened.

Guarantee: a filter excludes only files for whose rows the query's own condition is not true. Spark evaluates that
condition again.
"""

import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from engine.scan.implicit_columns import FileLocation

TESTS: Mapping[str, Callable[[Any, Any], bool]] = MappingProxyType(
    {
        "=": operator.eq,
        "<": operator.lt,
        "<=": operator.le,
        ">": operator.gt,
        ">=": operator.ge,
        "starts with": str.startswith,
        "ends with": str.endswith,
        "contains": operator.contains,
    }
)
"""The tests of a value against another one. Like Spark, Python compares texts by their code points."""

_NUMBERS = (int, Decimal)

IS_NULL = "is null"
IS_NOT_NULL = "is not null"


@dataclass(frozen=True, slots=True)
class PathFilter:
    """A test of a column that must succeed for at least one of several values.

    Attributes:
        column: The name of the column. Case is ignored.
        operator: A key of ``TESTS``, ``IS_NULL`` or ``IS_NOT_NULL``.
        values: Python values. None of the values is null.
    """

    column: str
    operator: str
    values: Sequence[object] = ()

    def accepts(self, value: object) -> bool:
        """Return whether the filter can be true for a value of its column. None is null."""
        if self.operator in (IS_NULL, IS_NOT_NULL):
            return (value is None) is (self.operator == IS_NULL)
        return value is not None and any(self._accepts(value, each) for each in self.values)

    def _accepts(self, value: object, other: object) -> bool:
        is_alike = (isinstance(value, _NUMBERS) and isinstance(other, _NUMBERS)) or type(value) is type(other)
        if not is_alike or any(isinstance(each, float) and math.isnan(each) for each in (value, other)):
            return True  # Spark decides, also about NaN, which Python orders in another way
        return bool(TESTS[self.operator](value, other))


def accepting(
    filters: Iterable[PathFilter], find_implicit: Callable[[str], pa.Field | None]
) -> Callable[[FileLocation], bool]:
    """Return a function that decides whether rows of a file can satisfy all filters.

    Args:
        filters: The filters of the query, on any columns.
        find_implicit: Returns the implicit column with a name. Returns None if the name belongs to the table.
    """
    fields = ((each, find_implicit(each.column)) for each in filters)
    of_path = [(each, field) for each, field in fields if field is not None and not pt.is_timestamp(field.type)]
    return lambda location: all(each.accepts(location.scalar(field).as_py()) for each, field in of_path)
