"""Queues of waiting tasks, one for each principal. The principals take turns.

Guarantees:

1. The principal that was served last comes last. The items of a principal are served in the order in which they came.
2. Each operation takes constant time, except for :meth:`PrincipalQueues.remove`, which reads one queue.
"""

from collections import OrderedDict, deque
from collections.abc import Iterator
from typing import Generic, TypeVar

_Item = TypeVar("_Item")


class PrincipalQueues(Generic[_Item]):
    """The queues. The principal None is the gateway itself."""

    def __init__(self) -> None:
        self._queues: OrderedDict[str | None, deque[_Item]] = OrderedDict()
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def length_of(self, principal: str | None) -> int:
        """Return how many items of a principal wait."""
        return len(self._queues.get(principal, ()))

    def add(self, principal: str | None, item: _Item) -> None:
        """Add an item at the end of the queue of a principal."""
        self._queues.setdefault(principal, deque()).append(item)
        self._length += 1

    def first(self) -> Iterator[tuple[str | None, _Item]]:
        """Iterate over the principals in the order of their turns, each with its first item.

        The queues must not change during the iteration.
        """
        return ((principal, queue[0]) for principal, queue in self._queues.items())

    def serve(self, principal: str | None) -> None:
        """Remove the first item of a principal, and move the principal to the end."""
        queue = self._queues[principal]
        queue.popleft()
        self._queues.move_to_end(principal)
        self._forget_one(principal, queue)

    def remove(self, principal: str | None, item: _Item) -> None:
        """Remove an item of a principal, if it still waits. The order of the principals stays."""
        queue = self._queues.get(principal)
        if queue is not None and item in queue:
            queue.remove(item)
            self._forget_one(principal, queue)

    def _forget_one(self, principal: str | None, queue: deque[_Item]) -> None:
        self._length -= 1
        if not queue:
            del self._queues[principal]
