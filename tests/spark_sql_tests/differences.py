"""A statement whose outcomes with Lodge and without it differ."""

import hashlib
from dataclasses import dataclass

from tests.spark_sql_tests.comparison import Kind
from tests.spark_sql_tests.outcomes import Failure, Outcome, Result


@dataclass(frozen=True, slots=True)
class Difference:
    """A statement with different outcomes.

    Attributes:
        way: The way of the run.
        file: The name of the file.
        number: The position of the statement in the file, from 0.
        statement: The statement, as the file contains it.
        sent: The statement that Lodge received.
        kind: How the outcomes differ.
        expected: The outcome without Lodge.
        found: The outcome with Lodge.
    """

    way: str
    file: str
    number: int
    statement: str
    sent: str
    kind: Kind
    expected: Outcome
    found: Outcome

    @property
    def digest(self) -> str:
        """A digest of the statement, which identifies it in the list of documented differences."""
        return digest_of(self.statement)

    def __str__(self) -> str:
        changed = f"\n  sent:      {_short(self.sent)}" if self.sent != self.statement else ""
        return (
            f"{self.way} {self.file} {self.number} {self.digest}: {self.kind.value}\n"
            f"  statement: {_short(self.statement)}{changed}\n"
            f"  Spark:     {self.expected}\n  Lodge:     {self.found}"
        )


def digest_of(statement: str) -> str:
    """Return a digest that identifies a statement."""
    return hashlib.sha256(statement.encode()).hexdigest()[:8]


def has_same_form(difference: Difference) -> bool:
    """Return whether both outcomes are errors with the same condition, or results with the same schema and size."""
    a, b = difference.expected, difference.found
    if isinstance(a, Result) and isinstance(b, Result):
        return a.schema == b.schema and len(a.rows) == len(b.rows)
    return isinstance(a, Failure) and isinstance(b, Failure) and a.condition == b.condition


def _short(text: str) -> str:
    return " ".join(text.split())[:300]
