"""Levels: the current write position at each depth of a row.

The position of a row is its index in the batch. The members of a map share the position of the map. The elements of an
array have their own positions.

A level is closed, with position -1, until a value is written at the level. Therefore a writer does not need to check
whether the level is open: the number of values in its column never equals the position of a closed level.
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
    """A column that must have a value at each position before the level advances."""

    def ensure_value(self, position: int) -> None:
        """Write the default value if the position has no value.

        Raises:
            ColumnError: If the column has no default value.
        """
        ...


class Level:
    """Write position at one depth of a row.

    Attributes:
        position: The position at which values are written. ``CLOSED`` if no row is being written.
        open_values: The values to close before the position advances.
        required_columns: The columns to check before the position advances.
    """

    __slots__ = ("open_values", "position", "required_columns")

    def __init__(self) -> None:
        self.position = CLOSED
        self.open_values: list[OpenValue] = []
        self.required_columns: list[RequiredColumn] = []

    def enter(self) -> int:
        """Return the position at which to write.

        Raises:
            LoaderStateError: If no row has been started.
        """
        if self.position < 0:
            raise LoaderStateError("A value was written outside a row. Call start_row first.")
        return self.position

    def leave(self) -> None:
        """Complete the values at the current position."""
        for value in self.open_values:
            value.close()
        self.open_values.clear()
        for column in self.required_columns:
            column.ensure_value(self.position)

    def abandon(self) -> None:
        """Discard the values at the current position, and close the level."""
        for value in self.open_values:
            value.abandon()
        self.open_values.clear()
        self.position = CLOSED


class InnerLevel(Level):
    """Position of the members of a map, or of the nested elements of an array.

    Writing the first member or element opens the map or array.
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
    """Position of the scalar elements of an array.

    The position is always after the last element. Therefore scalar elements do not need ``save``.

    Attributes:
        stop: The maximum number of elements in the vector, including the elements of this array. ``CLOSED`` while the
            array is not open.
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
    """The map or array to which an inner level belongs."""

    def open(self) -> None:
        """Open the map or array at its current position."""
        ...


class ScalarArrayOwner(Protocol):
    """The array to which an element level belongs."""

    def next_element(self) -> int:
        """Open the array and return the position of its first element.

        Raises:
            ValueTooLargeError: If the array is already open and contains as many elements as fit into a batch.
        """
        ...
