"""The memory of a session in the reaper."""

import pytest

from benchmarks.replicas.memory import MAX_REAPER_BYTES, measure_in_process


@pytest.mark.slow
def test_session_costs_reaper_bounded_memory():
    assert measure_in_process("reaper", 3_000) <= MAX_REAPER_BYTES
