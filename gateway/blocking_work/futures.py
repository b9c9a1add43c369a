"""Helpers for futures and tasks of asyncio."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar

from gateway.blocking_work.current_work import noted

_Item = TypeVar("_Item")


def retrieve_error(future: "asyncio.Future[Any]") -> None:
    """Retrieve the error of a completed future that nobody may wait for, so that asyncio does not log it."""
    if not future.cancelled():
        future.exception()


async def for_each(items: Iterable[_Item], action: Callable[[_Item], Awaitable[object]], *, workers: int) -> None:
    """Call an action for each item, for a limited number of items at the same time.

    The number of tasks does not depend on the number of items. If an action fails, the others are cancelled.
    """
    remaining = iter(items)

    async def work() -> None:
        for item in remaining:
            await action(item)

    async with asyncio.TaskGroup() as group:
        for _ in range(workers):
            group.create_task(noted(work()))
