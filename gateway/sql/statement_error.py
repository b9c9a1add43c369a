"""What is wrong with a statement that only Lodge knows, and where."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Position:
    """A place in a text as Spark gives it: the line from 1, the column from 0."""

    line: int
    column: int


class StatementError(Exception):
    """A statement about temporary tables that is not well formed; the message names what was expected, or a way out.

    Attributes:
        message: What is wrong, without the place.
        position: Where.
    """

    def __init__(self, message: str, position: Position) -> None:
        super().__init__(f"{message} (line {position.line}, pos {position.column})")
        self.message = message
        self.position = position


def error_at(sql: str, offset: int, message: str) -> StatementError:
    """The error at an offset of the text."""
    line = sql.count("\n", 0, offset) + 1
    return StatementError(message, Position(line, offset - sql.rfind("\n", 0, offset) - 1))
