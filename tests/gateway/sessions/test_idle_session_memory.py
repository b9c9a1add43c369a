"""The memory of an idle session in a gateway."""

import pytest

from benchmarks.replicas.memory import MAX_GATEWAY_BYTES, measure_in_process


@pytest.mark.slow
def test_idle_session_costs_gateway_bounded_memory():
    assert measure_in_process("gateway", 3_000) <= MAX_GATEWAY_BYTES
