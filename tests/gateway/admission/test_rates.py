"""Rates count the events of each caller in fixed windows."""

from hypothesis import given
from hypothesis import strategies as st

from gateway.admission.rates import MAX_CALLERS, Rate


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_window_ends_after_its_time() -> None:
    clock = Clock()
    rate = Rate(3, 1.0, clock)
    assert [rate.hit("ada") for _ in range(4)] == [True, True, True, False]
    assert rate.hit("bob")
    assert rate.has_room("carol")
    clock.now += 0.75
    assert not rate.hit("ada")
    assert rate.seconds_left("ada") == 0.25
    clock.now += 0.25
    assert rate.seconds_left("ada") == 0.0
    assert rate.has_room("ada")
    assert rate.hit("ada")


@given(st.lists(st.tuples(st.sampled_from("ab"), st.floats(0, 0.7)), max_size=60))
def test_each_window_of_a_caller_permits_as_many_events_as_the_limit(events: list[tuple[str, float]]) -> None:
    clock = Clock()
    rate = Rate(3, 1.0, clock)
    began: dict[str, float] = {}
    counts: dict[str, int] = {}
    for caller, pause in events:
        clock.now += pause
        if clock.now >= began.get(caller, 0.0) + 1.0:
            began[caller], counts[caller] = clock.now, 0
        has_room = rate.has_room(caller)
        counts[caller] += 1
        assert rate.hit(caller) == has_room == (counts[caller] <= 3)
        assert 0.0 < rate.seconds_left(caller) <= 1.0


def test_made_up_callers_do_not_occupy_memory() -> None:
    rate = Rate(3, 1.0, Clock())
    for number in range(MAX_CALLERS + 1000):
        rate.hit(f"principal {number}")
    assert len(rate._windows) == MAX_CALLERS
