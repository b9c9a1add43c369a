"""A stopping gateway hands its sessions over, even those of silent clients."""

import time

import pytest

from tests.chaos.clients import rows
from tests.chaos.rounds import SLACK_SECONDS
from tests.chaos.site import Timeouts
from tests.cluster.processes import wait_until

pytestmark = pytest.mark.slow

TIMES = Timeouts()


def test_silent_client_keeps_tables_when_its_gateway_is_replaced(start_site, open_session):
    site = start_site(TIMES)
    stopping, staying = site.gateways
    sessions = [open_session(stopping, staying, user=f"user-{number}") for number in range(5)]
    for session in sessions:
        session.sql(f"create temporary table t as {rows(range(5))}")
    before = site.locations()
    stopping.process.stop()
    wait_until(
        lambda: set(map(frozenset, site.holders().values())) == {frozenset({staying.name})},
        "the other gateway has adopted the sessions",
        SLACK_SECONDS,
    )
    silent_until = time.monotonic() + 2 * TIMES.lost_seconds
    while time.monotonic() < silent_until:
        assert site.locations() == before
        time.sleep(0.2)
    for session in sessions:
        assert sorted(row.id for row in session.sql("select id from t").collect()) == list(range(5))
    assert len(site.records()) == len(sessions)
    assert "session_reaped" not in "".join(reaper.log() for reaper in site.reapers)
