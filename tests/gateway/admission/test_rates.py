"""Rates, and the storage of the library's counters."""

from collections.abc import Callable

import pytest
from limits import RateLimitItemPerSecond
from limits.storage import MemoryStorage, Storage
from limits.strategies import FixedWindowRateLimiter

from gateway.admission import rates
from gateway.admission.rates import Rate, WindowCounters

LIMIT = RateLimitItemPerSecond(3)


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize("storage", [WindowCounters, MemoryStorage])
def test_storage_counts_as_the_storage_of_the_library(storage: Callable[[], Storage]) -> None:
    counters = storage()
    strategy = FixedWindowRateLimiter(counters)
    assert [strategy.hit(LIMIT, "ada") for _ in range(4)] == [True, True, True, False]
    assert strategy.hit(LIMIT, "bob")
    assert not strategy.test(LIMIT, "ada")
    assert strategy.test(LIMIT, "carol")
    key = LIMIT.key_for("ada")
    assert counters.get(key) == 4
    counters.clear(key)
    assert counters.get(key) == 0
    assert counters.check()
    assert counters.reset() in {1, 2}  # the library's own storage counts its keys differently
    assert strategy.hit(LIMIT, "bob")


def test_window_ends_after_its_time() -> None:
    clock = Clock()
    rate = Rate(LIMIT, clock)
    assert [rate.hit("ada") for _ in range(4)] == [True, True, True, False]
    clock.now += 0.75
    assert not rate.hit("ada")
    assert rate.seconds_left("ada") == 0.25
    clock.now += 0.25
    assert rate.seconds_left("ada") == 0.0
    assert rate.has_room("ada")
    assert rate.hit("ada")


def test_made_up_callers_do_not_occupy_memory() -> None:
    rate = Rate(LIMIT, Clock())
    for number in range(rates._MAX_COUNTERS + 1000):
        rate.hit(f"principal {number}")
    assert len(rate._counters._counters) == rates._MAX_COUNTERS
