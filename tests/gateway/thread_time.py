"""The processor time of a function, for tests that compare two inputs."""

import time
from collections.abc import Callable


def least_thread_seconds(function: Callable[[], object], repetitions: int) -> float:
    """Return the shortest processor time of several calls of a function in this thread.

    Other programs delay only some of the calls.
    """
    return min(_thread_seconds(function) for _ in range(repetitions))


def _thread_seconds(function: Callable[[], object]) -> float:
    begun = time.thread_time()
    function()
    return time.thread_time() - begun
