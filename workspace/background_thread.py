"""The threads that a process starts for itself. They do not prevent its end.

An error that ends a thread is logged, see :mod:`lodge.logs`.
"""

import threading
from collections.abc import Callable
from typing import Self


class BackgroundThread:
    """A thread, which a context manager runs until the end of the block.

    Args:
        name: The name of the thread.
        run: The function that the thread calls.

    Attributes:
        stopping: The event that asks the function to return when it is set.
    """

    def __init__(self, name: str, run: Callable[[], object]) -> None:
        self.stopping = threading.Event()
        self._thread = threading.Thread(target=run, name=name, daemon=True)  # noqa: TID251 - the only place

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopping.set()
        self.join()

    def start(self) -> None:
        """Start the thread.

        Raises:
            RuntimeError: If the system cannot start it. The method can then be called again.
            MemoryError: Likewise.
        """
        self._thread.start()

    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def join(self, timeout_seconds: float | None = None) -> None:
        self._thread.join(timeout_seconds)
