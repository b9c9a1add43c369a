"""A short run of the hostile programme. ``make soak`` plays it for five minutes, and also compares the latency."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.hostile.programme import Attackers, Gateway, Plan, Result, play


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_hostile_clients_do_not_harm_working_ones(spark_server: str, tmp_path: Path) -> None:
    with Gateway(spark_server, tmp_path) as gateway:
        result = play(gateway, Plan(quiet_seconds=0, hostile_seconds=10, workers=4, direct_workers=0))
    print(result.summary())
    assert result.harm() == []
    assert result.hostile, "no worker completed a statement"
    assert sum(result.limits.values()) > 0, "the attacks reached no limit"


@pytest.mark.slow
def test_unread_streams_occupy_bounded_memory(tmp_path: Path, wait_until: Callable[..., None]) -> None:
    """The backend never stops sending, and the clients of 32 streams never read."""
    largest = 0
    with Gateway("sc://127.0.0.1:1", tmp_path) as gateway:
        before = gateway.memory_bytes()

        def has_closed_connections() -> bool:
            nonlocal largest
            largest = max(largest, gateway.memory_bytes())
            return bool(gateway.events(["stalled_connection_closed"]))

        with Attackers(gateway.target, ["unread_streams"], gateway.attackers_token):
            wait_until(has_closed_connections, "the gateway closes connections of clients that do not read", 180)
        held = "lodge_gateway_bytes_in_flight"
        wait_until(lambda: not any(gateway.metrics(held).values()), "all memory is returned")
    assert largest - before < 3 * 192 * 2**20  # the limit of a principal, and gRPC's copies
    assert gateway.events(["lease_renewal_stopped"]) == []


def test_run_with_harm_is_reported() -> None:
    result = Result(quiet=[0.1] * 100, hostile=[0.1] * 90 + [0.5] * 10, errors=["lost"], memory_bytes=2**40, lapses=1)
    result.failed_probes, result.bad_events = 2, ["lease_renewal_stopped"]
    assert len(result.problems()) == 6
    assert len(result.harm()) == 5
    assert Result(quiet=[0.1] * 100, hostile=[0.29] * 100).problems() == []
    assert Result(quiet=[0.1] * 100, hostile=[0.5] * 100, direct_hostile=[0.2] * 100).problems() == []
    assert Result(quiet=[0.1] * 100, hostile=[0.7] * 100, direct_hostile=[0.2] * 100).problems() != []
