"""What a statement returns: its schema and rows, or its error."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql.connect.dataframe import DataFrame
from pyspark.sql.connect.session import SparkSession

_VOLATILE = (
    (re.compile(r"#\d+L?"), "#x"),
    (re.compile(r"(plan_id|transient_lastDdlTime)=\d+"), r"\1=x"),
    (re.compile(r'("transient_lastDdlTime":)"\d+"'), r'\1"x"'),
    (re.compile(r"(CTERelation(?:Def|Ref)|UnionLoop(?:Ref)?|Loop id:) \d+", re.IGNORECASE), r"\1 x"),
    (re.compile(r"\*\(\d+\) "), "*"),
    (re.compile(r"@[0-9a-f]{5,8}\b"), "@x"),
    (re.compile(r"(Created Time|Last Access|Created By|Owner): [^\\\n]*"), r"\1: x"),
    (re.compile(r'("(?:created_time|last_access|created_by|owner)":)"[^"]*"'), r'\1"x"'),
)
_UNSUPPORTED_TYPE = "UNSUPPORTED_ARROWTYPE"
_UNREADABLE = (KeyError, pa.ArrowNotImplementedError)
"""What PyArrow raises for intervals of months, which have no class in Python."""

_SHOWN_ROWS = 10_000
_VOLATILE_FIELDS = re.compile(r"^\(?'(Created Time|Last Access|Created By|Owner|Partition Statistics)'")


@dataclass(frozen=True, slots=True)
class Result:
    """A schema and rows, as texts.

    Attributes:
        schema: The names and types of the columns.
        rows: The rows in the order of the result.
    """

    schema: str
    rows: Sequence[str]

    def __str__(self) -> str:
        shown = "".join(f"\n      {row[:300]}" for row in self.rows[:6])
        return f"{self.schema[:300]}, {len(self.rows)} rows{shown}"


@dataclass(frozen=True, slots=True)
class Failure:
    """An error.

    Attributes:
        condition: The condition, or the name of the error's class if it has none.
        sql_state: The SQLSTATE.
        message: The message.
    """

    condition: str
    sql_state: str | None
    message: str

    def __str__(self) -> str:
        return f"{self.condition} {self.sql_state}: {self.message[:300]}"


Outcome = Result | Failure


def run_statement(spark: SparkSession, text: str) -> Outcome:
    """Run a statement as PySpark does, and return its outcome without volatile parts."""
    try:
        frame = spark.sql(text)
        try:
            return _read_result(frame)
        except _UNREADABLE:
            return _read_shown_result(frame)
        except PySparkException as error:
            if error.getCondition() != _UNSUPPORTED_TYPE:
                raise
            return _read_shown_result(frame)
    except PySparkException as error:
        message = normalise(str(error).partition("\n\nJVM stacktrace")[0])
        return Failure(error.getCondition() or type(error).__name__, error.getSqlState(), message)


def _read_result(frame: DataFrame) -> Result:
    """Return the result that Spark sends in Arrow's format."""
    client = frame.sparkSession.client
    table, schema, _ = client.to_table(frame._plan.to_proto(client), {})
    if schema is not None and "variant" in schema.simpleString():
        return _read_shown_result(frame)  # a file stores the same variant with other bytes
    columns = [_values(column) for column in table.columns]
    rows = [normalise(repr(row)) for row in zip(*columns, strict=True)] if columns else ["()"] * table.num_rows
    return Result(schema.simpleString() if schema is not None else str(table.schema), rows)


def _read_shown_result(frame: DataFrame) -> Result:
    """Return a result that Arrow cannot represent, as Spark prints it."""
    shown = frame._show_string(_SHOWN_ROWS, truncate=False)
    return Result(frame.schema.simpleString(), [normalise(line) for line in shown.splitlines() if line.startswith("|")])


def normalise(text: str) -> str:
    """Replace what differs between two runs at one server: expression ids, plan ids, times."""
    if _VOLATILE_FIELDS.match(text):
        return text.partition(",")[0]
    for pattern, replacement in _VOLATILE:
        text = pattern.sub(replacement, text)
    return text


def _values(column: pa.ChunkedArray) -> Sequence[Any]:
    """Return the values of a column, and for those outside the range of Python's types a text."""
    if pa.types.is_temporal(column.type) and not pa.types.is_interval(column.type):
        column = column.cast(pa.int32() if column.type.bit_width == 32 else pa.int64())
    try:
        values: Sequence[Any] = column.to_pylist()
    except (ValueError, OverflowError):
        values = [str(chunk.slice(number, 1)) for chunk in column.chunks for number in range(len(chunk))]
    return values
