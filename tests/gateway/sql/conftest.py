"""Measurements that the tests of SQL parsing share."""

import contextlib
import time
from collections.abc import Callable

import pytest

from gateway.sql.statement_error import StatementError

Function = Callable[[str], object]


@pytest.fixture
def measure_seconds() -> Callable[[Function, str], float]:
    """Measure the processor time of a function for a text, which may be malformed."""

    def measure(function: Function, sql: str) -> float:
        began = time.thread_time()
        with contextlib.suppress(StatementError):
            function(sql)
        return time.thread_time() - began

    return measure


@pytest.fixture
def assert_linear_time(measure_seconds: Callable[[Function, str], float]) -> Callable[[Function, str, str], None]:
    """Assert that eight times the text takes about eight times as long. Quadratic time would be 64 times as long.

    The shortest of several measurements counts, because other programs delay only some of them.
    """

    def assert_linear(function: Function, small: str, large: str) -> None:
        small_seconds = max(min(measure_seconds(function, small) for _ in range(3)), 0.0005)
        large_seconds = float("inf")
        for _ in range(5):
            large_seconds = min(large_seconds, measure_seconds(function, large))
            ratio = large_seconds / small_seconds
            if ratio < 30:
                return
        pytest.fail(f"eight times the text took {ratio:.0f} times as long")

    return assert_linear
