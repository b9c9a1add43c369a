"""Grouping of small files, and of the units of a file, into tasks."""

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

_TASKS_PER_CORE = 2
_MIN_TASK_BYTES = 16 * 1024 * 1024
_MAX_TASK_BYTES = 64 * 1024 * 1024

_Item = TypeVar("_Item")


def task_bytes(total_bytes: int) -> int:
    """Return how many bytes a single task should read, including the costs of opening its files.

    The result is a share of the total between 16 and 64 MiB. A task takes about 20 ms of one core before Spark reads
    any data. The planner does not know the number of cores of the executors, so it uses the number of cores of its own
    machine.
    """
    share = total_bytes // (_TASKS_PER_CORE * (os.cpu_count() or 1))
    return min(max(share, _MIN_TASK_BYTES), _MAX_TASK_BYTES)


def pack(items: Iterable[tuple[_Item, int]], target_bytes: int, item_bytes: int = 0) -> Iterator[Sequence[_Item]]:
    """Group adjacent items, and keep their order.

    A group exceeds the target only if it contains a single item.

    Args:
        items: The items, each with its size in bytes.
        target_bytes: The maximum size of a group.
        item_bytes: The cost of opening an item, expressed as the number of bytes that could be read in the same time.
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
