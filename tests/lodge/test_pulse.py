"""When a gateway counts as stuck. Numbers are the guarantees of :mod:`lodge.pulse`."""

import os
import resource
import subprocess
import sys
from collections.abc import Iterator

import pytest

from lodge.pulse import ProcessState, Pulse

PERIOD_SECONDS = 0.5
WAITING, RUNNABLE, STOPPED, TRACED = (frozenset(each) for each in ("S", "SR", "T", "t"))


def stuck_seconds(steps: list[tuple[float, int, frozenset[str], float]]) -> float:
    """Return how long a gateway is stuck after steps: a pause, its beats, the states of its threads, its processor."""
    pulse, now, used = Pulse(PERIOD_SECONDS), 100.0, 0.0
    pulse.observe(1, lambda: ProcessState(WAITING, used), now)
    for pause, beats, threads, processor in steps:
        now, used = now + pause, used + processor
        pulse.observe(beats, lambda threads=threads, used=used: ProcessState(threads, used), now)  # type: ignore[misc]
    return pulse.stuck_seconds


def test_gateway_that_responds_is_not_stuck() -> None:  # 1
    assert stuck_seconds([(0.5, 1, WAITING, 0.0)] * 8 + [(0.5, 2, RUNNABLE, 0.5)]) == 0


@pytest.mark.parametrize("threads", [WAITING, STOPPED, frozenset("D"), frozenset()])
def test_waiting_or_stopped_gateway_is_stuck(threads: frozenset[str]) -> None:
    assert stuck_seconds([(0.5, 1, threads, 0.0)] * 8) == 4.0


def test_gateway_that_computes_is_stuck_for_its_processor_time() -> None:  # 3
    assert stuck_seconds([(0.5, 1, RUNNABLE, 0.5)] * 9) == 4.0, "the first step only tells where the time begins"
    assert stuck_seconds([(0.5, 1, RUNNABLE, 0.05)] * 9) == pytest.approx(0.4)
    assert stuck_seconds([(0.5, 1, RUNNABLE, 1.0)] * 9) == 4.0, "two threads are not twice as stuck"


def test_gateway_that_waits_for_a_processor_is_silent() -> None:  # 3
    pulse = Pulse(PERIOD_SECONDS)
    for moment in range(9):
        pulse.observe(1, lambda: ProcessState(RUNNABLE, 7.0), moment * PERIOD_SECONDS)
    assert (pulse.stuck_seconds, pulse.silent_seconds) == (0.0, 4.0)
    pulse.observe(2, lambda: ProcessState(RUNNABLE, 7.0), 9 * PERIOD_SECONDS)
    assert pulse.silent_seconds == 0


def test_pause_of_the_watcher_does_not_count() -> None:  # 2
    assert stuck_seconds([(3600.0, 1, WAITING, 0.0)]) == 2 * PERIOD_SECONDS


def test_gateway_in_a_debugger_is_not_stuck() -> None:  # 4
    assert stuck_seconds([(0.5, 1, TRACED, 0.0)] * 100) == 0


@pytest.fixture
def busy() -> Iterator[int]:
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as process:
        yield process.pid
        process.kill()


def test_state_of_a_process_is_read(busy: int) -> None:
    while (state := ProcessState.read(busy)).processor_seconds < 0.2:
        assert state.threads <= {"R", "S", "D"}
    assert "R" in state.threads
    assert ProcessState.read(os.getpid()).processor_seconds > 0
    assert ProcessState.read(2**22 + 1) == ProcessState(frozenset(), 0.0)


def test_state_without_a_free_file_descriptor_is_unknown(busy: int) -> None:
    """The watcher must go on. Afterwards, the processor time before does not count."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, limits[1]))
    try:
        assert ProcessState.read(busy) == ProcessState(frozenset(), 0.0)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert stuck_seconds([(0.5, 1, frozenset(), 0.0), (0.5, 1, frozenset({"R"}), 1000.0)]) <= 1.0
