"""A loop that keeps a watch running until it is stopped."""

import threading
from collections.abc import Callable, Iterable
from typing import TypeVar

_Event = TypeVar("_Event")

_PAUSE_SECONDS = 5.0


def run_watch_loop(
    watch: Callable[[threading.Event], Iterable[_Event]],
    handle: Callable[[_Event], None],
    on_error: Callable[[Exception], None],
    stop: threading.Event,
) -> None:
    """Handle the events of a watch until it is stopped.

    Restarts a watch that ends or fails, after a pause.

    Args:
        watch: Starts the watch, which must end soon after ``stop`` is set.
        handle: Handles one event. An exception counts as a failure of the watch.
        on_error: Handles an unexpected exception; must not raise.
        stop: Ends the loop when another thread sets it.
    """
    while not stop.is_set():
        try:
            for event in watch(stop):
                handle(event)
        except Exception as error:  # noqa: BLE001 - a top loop: it must start the watch again
            on_error(error)
        stop.wait(_PAUSE_SECONDS)
