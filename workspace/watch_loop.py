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
    """Handle the events of a watch until the loop is stopped.

    If the watch ends or fails, it is started again after a pause.

    Args:
        watch: A function that starts the watch. The watch must end soon after ``stop`` is set.
        handle: A function that handles one event. If it raises an exception, the watch is restarted.
        on_error: A function that handles unexpected exceptions. It must not raise exceptions.
        stop: The event that ends the loop when it is set.
    """
    while not stop.is_set():
        try:
            for event in watch(stop):
                handle(event)
        except Exception as error:  # noqa: BLE001 - a top loop, which must restart the watch
            on_error(error)
        stop.wait(_PAUSE_SECONDS)
