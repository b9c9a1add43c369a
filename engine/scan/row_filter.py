"""What a query wants of rows, as far as a file can tell by its statistics.

Guarantee: a filter only leaves out rows for which the query's own filter is not true. Spark applies that one again.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

Comparison = Callable[[pc.Expression, pa.Scalar], pc.Expression]

COMPARISONS: Mapping[str, Comparison] = MappingProxyType(
    {
        "=": lambda column, value: column == value,
        "<": lambda column, value: column < value,
        "<=": lambda column, value: column <= value,
        ">": lambda column, value: column > value,
        ">=": lambda column, value: column >= value,
    }
)

_MAX_COMPARISONS = 32
"""Of more values, only the range counts. Arrow follows an expression by recursion, so a long one ends the process."""


@dataclass(frozen=True, slots=True)
class RowFilter:
    """A comparison that holds for one of some values.

    Attributes:
        column: The name, in any letter case.
        operator: One of ``COMPARISONS``.
        values: Python values, none of them null.
    """

    column: str
    operator: str
    values: Sequence[Any]

    def expression(self, field: pa.Field) -> pc.Expression | None:
        """About a column of a file; None if its statistics cannot tell."""
        scalars = [self._scalar(value, field.type) for value in self.values]
        if not scalars or None in scalars:
            return None
        compare, column = COMPARISONS[self.operator], pc.field(field.name)
        if len(scalars) > _MAX_COMPARISONS:
            return (column >= pa.scalar(min(self.values), field.type)) & (
                column <= pa.scalar(max(self.values), field.type)
            )
        expression = compare(column, scalars[0])
        for scalar in scalars[1:]:
            expression |= compare(column, scalar)
        return expression

    def _scalar(self, value: Any, type_: pa.DataType) -> pa.Scalar | None:
        if pt.is_floating(type_) and (self.operator in (">", ">=") or math.isnan(value)):
            return None  # NaN is larger than all numbers for Spark, and in no statistics
        if pt.is_timestamp(type_) and (type_.tz is None) != (getattr(value, "tzinfo", None) is None):
            return None
        try:
            return pa.scalar(value, type_)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            return None
