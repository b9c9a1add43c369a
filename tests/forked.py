"""A process that goes on from here, as a fork of the test run."""

import gc
import multiprocessing
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from typing import Any


def forked(target: Callable[..., Any], *args: Any) -> BaseProcess:
    """A process to be started; it ends with the test run at the latest.

    It collects no garbage: what other tests have left may wait, when it is destroyed, for threads that a fork lacks.
    """

    def run() -> None:
        gc.disable()
        target(*args)

    return multiprocessing.get_context("fork").Process(target=run, daemon=True)
