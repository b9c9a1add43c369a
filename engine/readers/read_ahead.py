"""Processing of the next blocks of a file while the caller uses the current block.

pyarrow releases Python's global interpreter lock while it parses a block. Therefore another thread can parse the next
block while the caller slices, converts and writes the current batch. Each block is processed by a single thread,
because splitting a block among threads costs more than it gains.

Guarantees:

1. The results are in the order of the blocks. If processing a block fails, the error is raised after all earlier
   results.
2. At most ``BLOCKS_AHEAD`` blocks are in memory in addition to the current block.
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


def map_ahead(blocks: Iterable[_Block], process: Callable[[_Block], _Result]) -> Iterator[tuple[_Block, _Result]]:
    """Yield each block with the result of ``process``, which runs in another thread.

    Args:
        blocks: The blocks. The iterator runs in the caller's thread.
        process: The function to apply to each block.

    Raises:
        Exception: Any error of ``blocks`` or of ``process``.
    """
    started: deque[tuple[_Block, Future[_Result]]] = deque()
    failure: Exception | None = None
    is_exhausted = False
    waiting = iter(blocks)
    try:
        while True:
            while not is_exhausted and len(started) < BLOCKS_AHEAD:
                try:
                    block = next(waiting)
                except Exception as error:  # noqa: BLE001 - raised below, after all earlier results
                    is_exhausted = True
                    failure = None if isinstance(error, StopIteration) else error
                else:
                    started.append((block, _executor().submit(process, block)))
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
def _executor() -> ThreadPoolExecutor:
    """Return the executor of this process. It is created after Spark has forked the process."""
    return ThreadPoolExecutor(_THREADS, thread_name_prefix="blocks")
