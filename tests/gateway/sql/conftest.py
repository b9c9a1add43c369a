"""Measurements that the tests of SQL parsing share."""

import contextlib
from collections.abc import Callable

import pytest

from gateway.sql.statement_error import StatementError
from tests.gateway.thread_time import least_thread_seconds

Function = Callable[[str], object]


@pytest.fixture
def measure_seconds() -> Callable[[Function, str, int], float]:
    """Measure the shortest processor time of several calls of a function with a text, which may be malformed."""

    def measure(function: Function, sql: str, repetitions: int) -> float:
        def run() -> None:
            with contextlib.suppress(StatementError):
                function(sql)

        return least_thread_seconds(run, repetitions)

    return measure


@pytest.fixture
def assert_linear_time(measure_seconds: Callable[[Function, str, int], float]) -> Callable[[Function, str, str], None]:
    """Assert that eight times the text takes about eight times as long. Quadratic time would be 64 times as long."""

    def assert_linear(function: Function, small: str, large: str) -> None:
        small_seconds = max(measure_seconds(function, small, 3), 0.0005)
        large_seconds = float("inf")
        for _ in range(5):
            large_seconds = min(large_seconds, measure_seconds(function, large, 1))
            ratio = large_seconds / small_seconds
            if ratio < 30:
                return
        pytest.fail(f"eight times the text took {ratio:.0f} times as long")

    return assert_linear
