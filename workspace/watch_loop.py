"""A watch that goes on whatever happens to it."""

import threading
from collections.abc import Callable, Iterable
from typing import TypeVar

_Event = TypeVar("_Event")

_PAUSE_SECONDS = 5.0


def run_watch_loop(
    watch: Callable[[threading.Event], Iterable[_Event]],
    take: Callable[[_Event], None],
    failed: Callable[[Exception], None],
    stop: threading.Event,
) -> None:
    """Takes the events of a watch until it is stopped. One that ends or fails is begun anew after a pause.

    Args:
        watch: Begins the watch; it ends soon after the stop.
        take: What it raises is a failure of the watch.
        failed: Called with what was unexpected, while it is handled; must raise nothing.
        stop: Set from another thread.
    """
    while not stop.is_set():
        try:
            for event in watch(stop):
                take(event)
        except Exception as error:  # noqa: BLE001 - a top loop: it must be watched again
            failed(error)
        stop.wait(_PAUSE_SECONDS)
