"""Positions of JSON objects in a file, for error messages."""

from dataclasses import dataclass
from typing import Protocol

from engine.context import ErrorContext
from engine.scan.reader import SourceFile


class RowPositions(Protocol):
    """Positions of the rows of a file. A row is a line or an object, counted from 1."""

    def at(self, number: int) -> ErrorContext:
        """Return the context of one row."""
        ...

    def between(self, first: int, last: int) -> ErrorContext:
        """Return the context of several rows."""
        ...


@dataclass(frozen=True, slots=True)
class ObjectPositions:
    """Positions of objects that are numbered within the file."""

    file: SourceFile

    def at(self, number: int) -> ErrorContext:
        return self.file.context.at(f"object {number}")

    def between(self, first: int, last: int) -> ErrorContext:
        return self.file.context.at(f"objects {first} to {last}") if first < last else self.at(first)
