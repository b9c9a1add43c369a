"""The positions of JSON objects in a file, for error messages."""

from dataclasses import dataclass
from typing import Protocol

from engine.context import ErrorContext
from engine.scan.reader import SourceFile


class RowPositions(Protocol):
    """The positions of the rows of a file: lines or objects, counted from 1."""

    def at(self, number: int) -> ErrorContext:
        """Return the context of one row."""
        ...

    def between(self, first: int, last: int) -> ErrorContext:
        """Return the context of several rows."""
        ...


@dataclass(frozen=True, slots=True)
class ObjectPositions:
    """The positions of objects that are counted in the file."""

    file: SourceFile

    def at(self, number: int) -> ErrorContext:
        return self.file.context.at(f"object {number}")

    def between(self, first: int, last: int) -> ErrorContext:
        return self.file.context.at(f"objects {first} to {last}") if first < last else self.at(first)
