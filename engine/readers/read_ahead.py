"""Work on the next blocks of a file while the last one is on its way.

Why it exists: pyarrow parses a block without holding Python's lock, so one thread more keeps it busy while the batch
before is cut, handed over and written. One block is worked on by one thread: to cut it up for several costs more.

Guarantees:

1. Results come in order. What fails, fails at its place, after all results before it.
2. At most ``BLOCKS_AHEAD`` blocks are in memory beside the one that was given out.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import TypeVar

BLOCKS_AHEAD = 3
_THREADS = 2

_Block = TypeVar("_Block")
_Result = TypeVar("_Result")


def map_ahead(blocks: Iterable[_Block], work: Callable[[_Block], _Result]) -> Iterator[tuple[_Block, _Result]]:
    """Each block with what ``work`` makes of it in another thread.

    Raises: What the iterator or ``work`` raise.
    """
    started: deque[tuple[_Block, Future[_Result]]] = deque()
    failure: Exception | None = None
    is_read = False
    waiting = iter(blocks)
    try:
        while True:
            while not is_read and len(started) < BLOCKS_AHEAD:
                try:
                    block = next(waiting)
                except Exception as error:  # noqa: BLE001 - raised below, at its place
                    is_read = True
                    failure = None if isinstance(error, StopIteration) else error
                else:
                    started.append((block, _workers().submit(work, block)))
            if not started:
                break
            block, result = started.popleft()
            yield block, result.result()
    finally:
        for _, result in started:
            result.cancel()
    if failure is not None:
        raise failure


@cache
def _workers() -> ThreadPoolExecutor:
    """Of this process; made after Spark has forked it."""
    return ThreadPoolExecutor(_THREADS, thread_name_prefix="blocks")
