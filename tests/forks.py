"""Forks of the test process."""

import ctypes
import gc
import multiprocessing
import signal
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from typing import Any

_SET_PARENT_DEATH_SIGNAL = 1


def die_with_parent() -> None:
    """Let the kernel kill this process when its parent ends."""
    ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)


def create_fork(target: Callable[..., Any], *args: Any) -> BaseProcess:
    """Create a process that runs a function in a fork of the test process.

    The caller starts it. It ends with the test run at the latest. It collects no garbage, because objects of other
    tests may wait on destruction for threads that a fork lacks.
    """

    def run() -> None:
        gc.disable()
        target(*args)

    return multiprocessing.get_context("fork").Process(target=run, daemon=True)
