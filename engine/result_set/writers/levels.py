"""Levels: the current write position at each depth of a row.

The position of a row is its number in the batch. The members of a map share the position of the map. The elements of
an array have positions of their own.

A level is closed, with position -1, until something is written at it. So a writer whose column is ready for the
position needs no other check.
"""

from typing import Protocol

from engine.errors import LoaderStateError

CLOSED = -1


class OpenValue(Protocol):
    """A map, array or dict that is being written at the current position."""

    def close(self) -> None:
        """Complete the value."""
        ...

    def abandon(self) -> None:
        """Discard the value."""
        ...


class RequiredColumn(Protocol):
    """A column that needs a value at each position before the level moves on."""

    def ensure_value(self, position: int) -> None:
        """Write the default if the position has no value.

        Raises:
            ColumnError: If no default exists.
        """
        ...


class Level:
    """The write position in a row.

    Attributes:
        position: Where values are written. ``CLOSED`` outside a row.
        open_values: The values to close before the position moves on.
        required_columns: The columns to check before the position moves on.
    """

    __slots__ = ("open_values", "position", "required_columns")

    def __init__(self) -> None:
        self.position = CLOSED
        self.open_values: list[OpenValue] = []
        self.required_columns: list[RequiredColumn] = []

    def enter(self) -> int:
        """Return the position to write at.

        Raises:
            LoaderStateError: Outside a row.
        """
        if self.position < 0:
            raise LoaderStateError("A value was written outside a row: call start_row first.")
        return self.position

    def leave(self) -> None:
        """Complete the values at the position."""
        for value in self.open_values:
            value.close()
        self.open_values.clear()
        for column in self.required_columns:
            column.ensure_value(self.position)

    def abandon(self) -> None:
        """Discard the values at the position, and close the level."""
        for value in self.open_values:
            value.abandon()
        self.open_values.clear()
        self.position = CLOSED


class InnerLevel(Level):
    """The position in a map, or of an array's nested elements.

    The first value written there opens it.
    """

    __slots__ = ("_owner",)

    def __init__(self, owner: "Owner") -> None:
        super().__init__()
        self._owner = owner

    def enter(self) -> int:
        if self.position < 0:
            self._owner.open()
        return self.position


class ElementLevel(Level):
    """The position of an array's scalar elements.

    It is always after the last element, so elements need no ``save``.

    Attributes:
        stop: The largest number of elements in the vector, including those of this array. ``CLOSED`` before the array
            is open.
    """

    __slots__ = ("_owner", "stop")

    def __init__(self, owner: "ScalarArrayOwner") -> None:
        super().__init__()
        self._owner = owner
        self.stop = CLOSED

    def enter(self) -> int:
        return self._owner.next_element()

    def abandon(self) -> None:
        self.stop = CLOSED


class Owner(Protocol):
    """The map or array whose values an inner level positions."""

    def open(self) -> None:
        """Begin the value that contains the level."""
        ...


class ScalarArrayOwner(Protocol):
    """The array whose scalar elements an element level positions."""

    def next_element(self) -> int:
        """Open the array, and return the position of its first element.

        Raises:
            ValueTooLargeError: If the array is open and has as many elements as a batch can contain.
        """
        ...
