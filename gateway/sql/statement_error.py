"""Errors in statements that Lodge itself defines, with their position."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Position:
    """A position in a text as Spark counts it: lines from 1, columns from 0."""

    line: int
    column: int


class StatementError(Exception):
    """A malformed or unsupported clause in a statement about temporary tables.

    Attributes:
        message: What is wrong and what to do instead, without the position.
        position: Where the clause is.
    """

    def __init__(self, message: str, position: Position) -> None:
        super().__init__(f"{message} (line {position.line}, pos {position.column})")
        self.message = message
        self.position = position


def error_at(sql: str, offset: int, message: str) -> StatementError:
    """Return an error at an offset of the text."""
    line = sql.count("\n", 0, offset) + 1
    return StatementError(message, Position(line, offset - sql.rfind("\n", 0, offset) - 1))
