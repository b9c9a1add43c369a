"""What one task of a scan reads: small files together, large ones in parts."""

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

_TASKS_A_CORE = 2
_LEAST_TASK_BYTES = 16 * 1024 * 1024
_MOST_TASK_BYTES = 64 * 1024 * 1024

_Item = TypeVar("_Item")


@dataclass(frozen=True, slots=True)
class Sized(Generic[_Item]):
    """Something to read, and how many bytes of the file that is."""

    item: _Item
    size_bytes: int


def task_bytes(total_bytes: int) -> int:
    """What one task should read of all: a share, so that many can work, but no less than is worth a task.

    A task costs Spark about 20 ms of a core before it reads anything. How many cores the executors have is not known
    where a scan is planned; those of this machine stand for them.
    """
    share = total_bytes // (_TASKS_A_CORE * (os.cpu_count() or 1))
    return min(max(share, _LEAST_TASK_BYTES), _MOST_TASK_BYTES)


def packed(items: Iterable[Sized[_Item]], target_bytes: int, item_bytes: int) -> Iterator[Sequence[_Item]]:
    """Groups of neighbours, in order; a group has more than the target only if one item alone has.

    Args:
        items: What there is to read.
        target_bytes: What a group may have.
        item_bytes: What opening one more costs, in bytes that could be read meanwhile.
    """
    group: list[_Item] = []
    group_bytes = 0
    for one in items:
        cost = one.size_bytes + item_bytes
        if group and group_bytes + cost > target_bytes:
            yield group
            group, group_bytes = [], 0
        group.append(one.item)
        group_bytes += cost
    if group:
        yield group
