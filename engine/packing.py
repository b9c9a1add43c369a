"""Grouping of small files, and of units of a file, into the work of one task."""

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

_TASKS_PER_CORE = 2
_MIN_TASK_BYTES = 16 * 1024 * 1024
_MAX_TASK_BYTES = 64 * 1024 * 1024

_Item = TypeVar("_Item")


def task_bytes(total_bytes: int) -> int:
    """Return how many bytes one task should read: a share of the total, between 16 and 64 MiB.

    A task costs Spark about 20 ms of one core before it reads anything. The planner does not know how many cores the
    executors have, so it uses the number of cores of its own machine.
    """
    share = total_bytes // (_TASKS_PER_CORE * (os.cpu_count() or 1))
    return min(max(share, _MIN_TASK_BYTES), _MAX_TASK_BYTES)


def pack(items: Iterable[tuple[_Item, int]], target_bytes: int, item_bytes: int = 0) -> Iterator[Sequence[_Item]]:
    """Group neighbouring items in order. A group exceeds the target only if it has a single item.

    Args:
        items: The items, each with its size in bytes.
        target_bytes: The largest size of a group.
        item_bytes: The cost of opening one item, as a number of bytes that could be read in that time.
    """
    group: list[_Item] = []
    group_bytes = 0
    for item, size_bytes in items:
        cost = size_bytes + item_bytes
        if group and group_bytes + cost > target_bytes:
            yield group
            group, group_bytes = [], 0
        group.append(item)
        group_bytes += cost
    if group:
        yield group
