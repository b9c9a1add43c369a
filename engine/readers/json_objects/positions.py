"""Where the objects of a file stand, for messages."""

from dataclasses import dataclass
from typing import Protocol

from engine.context import ErrorContext
from engine.scan.reader import SourceFile


class RowPositions(Protocol):
    """Where the objects of a block stand."""

    def at(self, number: int) -> ErrorContext: ...

    def near(self, first: int, last: int) -> ErrorContext: ...


@dataclass(frozen=True, slots=True)
class ObjectPositions:
    """Makes the position of a message out of the number of an object."""

    file: SourceFile

    def at(self, number: int) -> ErrorContext:
        return self.file.context.at(f"object {number}")

    def near(self, first: int, last: int) -> ErrorContext:
        return self.file.context.at(f"objects {first} to {last}") if first < last else self.at(first)
