"""Row filters: conditions that a reader can check against the statistics of a file.

Guarantee: a filter excludes only rows for which the query's own condition is not true. Spark evaluates that condition
again.
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
"""The maximum number of values that are compared individually. More values are compared by their range.

Arrow processes expressions recursively, so a long expression would crash the process.
"""


@dataclass(frozen=True, slots=True)
class RowFilter:
    """A comparison of a column that must be true for at least one of several values.

    Attributes:
        column: The name of the column. Case is ignored.
        operator: A key of ``COMPARISONS``.
        values: Python values. None of the values is null.
    """

    column: str
    operator: str
    values: Sequence[Any]

    def expression(self, field: pa.Field) -> pc.Expression | None:
        """Return the filter as an expression for a column of a file.

        Return None if the file's statistics are not sufficient to evaluate the filter.
        """
        scalars = [self._to_scalar(value, field.type) for value in self.values]
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

    def _to_scalar(self, value: Any, type_: pa.DataType) -> pa.Scalar | None:
        if pt.is_floating(type_) and (self.operator in (">", ">=") or math.isnan(value)):
            return None  # in Spark, NaN is larger than all numbers, but statistics ignore NaN
        if pt.is_timestamp(type_) and (type_.tz is None) != (getattr(value, "tzinfo", None) is None):
            return None
        try:
            return pa.scalar(value, type_)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            return None
