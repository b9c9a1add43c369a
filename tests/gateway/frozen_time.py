"""The module ``time`` for code under test, with clocks that only the test sets forward."""

import time


class FrozenTime:
    """Replaces the module ``time`` in one module of the product.

    Tests replace the name in that module only. The event loop and the threads keep their clocks.
    """

    def __init__(self) -> None:
        self._begun_seconds = time.time()
        self._monotonic_seconds = 1000.0
        self._passed_seconds = 0.0

    def advance(self, seconds: float) -> None:
        self._passed_seconds += seconds

    def monotonic(self) -> float:
        return self._monotonic_seconds + self._passed_seconds

    def time(self) -> float:
        return self._begun_seconds + self._passed_seconds
