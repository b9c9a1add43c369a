"""Errors, with positions, in statements that only Lodge defines."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Position:
    """A position in a SQL text, counted as in Spark.

    Attributes:
        line: The line, starting at 1.
        column: The column, starting at 0.
    """

    line: int
    column: int


class StatementError(Exception):
    """A malformed or unsupported clause in a statement about temporary tables.

    Attributes:
        message: The problem and how to solve it, without the position.
        position: The position of the clause.
    """

    def __init__(self, message: str, position: Position) -> None:
        super().__init__(f"{message} (line {position.line}, pos {position.column})")
        self.message = message
        self.position = position


def error_at(sql: str, offset: int, message: str) -> StatementError:
    """Return an error for the given offset in a SQL text."""
    line = sql.count("\n", 0, offset) + 1
    return StatementError(message, Position(line, offset - sql.rfind("\n", 0, offset) - 1))
