"""A short run of the hostile programme. ``make soak`` plays it for five minutes."""

from pathlib import Path

import pytest

from tests.hostile.programme import Gateway, Plan, Result, play


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_hostile_clients_do_not_harm_working_ones(spark_server: str, tmp_path: Path) -> None:
    with Gateway(spark_server, tmp_path) as gateway:
        result = play(gateway, Plan(quiet_seconds=15, hostile_seconds=40))
    print(result.summary())
    assert result.problems() == []
    assert sum(result.limits.values()) > 0, "the attacks reached no limit"


def test_run_with_harm_is_reported() -> None:
    result = Result(quiet=[0.1] * 100, hostile=[0.1] * 90 + [0.5] * 10, errors=["lost"], memory_bytes=2**40, lapses=1)
    result.failed_probes, result.bad_events = 2, ["lease_renewal_stopped"]
    assert len(result.problems()) == 6
    assert Result(quiet=[0.1] * 100, hostile=[0.29] * 100).problems() == []
