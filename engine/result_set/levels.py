"""Where writing stands, at each depth of a row.

A row has a position: its number in the batch. The members of a map share the position of what the map is in; the
elements of an array count for themselves. A level is one such position. It is closed, at -1, until something is
written at it; so a writer that finds its column ready for the position needs no other check.
"""

from typing import Protocol

from engine.errors import LoaderStateError

CLOSED = -1


class Opened(Protocol):
    """A map, array or dict that is being written at the current position."""

    def close(self) -> None:
        """Its value is complete."""
        ...

    def abandon(self) -> None:
        """Its value is not to be kept."""
        ...


class Completed(Protocol):
    """A column that may not be left out, or must be filled at once."""

    def complete(self, position: int) -> None:
        """Makes sure of a value at the position, which is about to be left.

        Raises: ColumnError if nothing can stand for a missing one.
        """
        ...


class Level:
    """The position of a row.

    Attributes:
        position: Where values go; ``CLOSED`` outside a row.
        opened: What must be closed before the position moves on.
        completed: The columns to ask before it does.
    """

    __slots__ = ("completed", "opened", "position")

    def __init__(self) -> None:
        self.position = CLOSED
        self.opened: list[Opened] = []
        self.completed: list[Completed] = []

    def enter(self) -> int:
        """The position to write at.

        Raises: LoaderStateError outside a row.
        """
        if self.position < 0:
            raise LoaderStateError("A value was written outside a row: call start_row first.")
        return self.position

    def leave(self) -> None:
        """The values at the position are complete."""
        for opened in self.opened:
            opened.close()
        self.opened.clear()
        for column in self.completed:
            column.complete(self.position)

    def abandon(self) -> None:
        """The values at the position are not to be kept."""
        for opened in self.opened:
            opened.abandon()
        self.opened.clear()
        self.position = CLOSED


class InnerLevel(Level):
    """The position inside a map, or of an array's elements: opened by the first value that is written there."""

    __slots__ = ("_owner",)

    def __init__(self, owner: "Owner") -> None:
        super().__init__()
        self._owner = owner

    def enter(self) -> int:
        if self.position < 0:
            self._owner.open()
        return self.position


class ElementLevel(Level):
    """The position of an array's scalar elements: behind the last one, and so it moves on by itself.

    Attributes:
        stop: How many elements there may be with those of this array; ``CLOSED`` before it is begun.
    """

    __slots__ = ("_owner", "stop")

    def __init__(self, owner: "ScalarOwner") -> None:
        super().__init__()
        self._owner = owner
        self.stop = CLOSED

    def enter(self) -> int:
        return self._owner.next_element()

    def abandon(self) -> None:
        self.stop = CLOSED


class Owner(Protocol):
    def open(self) -> None:
        """Begins the value that the level is inside of."""
        ...


class ScalarOwner(Protocol):
    def next_element(self) -> int:
        """Begins the array, and gives the position of its first element.

        Raises: ValueTooLargeError if it was begun before, and has as many elements as a batch can hold.
        """
        ...
