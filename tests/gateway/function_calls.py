"""The cost of a piece of code, as the number of function calls. It does not depend on the machine or its load."""

import gc
import sys
from collections.abc import Callable
from typing import Any

MOST_CALLS = 100
"""The most function calls of code that every request runs."""


def count_calls(function: Callable[[], object]) -> int:
    """Return how many functions of Python and of C a function calls."""
    count = 0

    def observe(_frame: Any, event: str, _argument: Any) -> None:
        nonlocal count
        if event in ("call", "c_call"):
            count += 1

    function()  # the first call may fill caches
    gc.disable()  # a collection calls finalizers, and callbacks of other libraries
    sys.setprofile(observe)
    try:
        function()
    finally:
        sys.setprofile(None)
        gc.enable()
    return count
