"""The API server is absent for longer than lease and grace period."""

import time

import pytest

from tests.chaos.clients import rows
from tests.chaos.site import Timeouts
from tests.chaos.statements import RunningStatement, condition_of
from tests.cluster.processes import wait_until

pytestmark = pytest.mark.slow

TIMES = Timeouts()
PAUSE_SECONDS = 1.0
REFUSALS = {"LODGE_LEASE_LOST", "LODGE_STORAGE_UNAVAILABLE"}
"""The gateway knows that its lease lapsed, or first finds that it cannot read records."""


def test_gateways_fence_and_recover_with_all_data(start_site, open_session, testbed):
    site = start_site(TIMES)
    sessions = [open_session(gateway, user=gateway.name) for gateway in site.gateways]
    for session in sessions:
        session.sql(f"create temporary table t as {rows(range(5))}")
    before = site.locations()
    with testbed.cluster.api_server.stopped():
        ends = time.monotonic() + 1.3 * TIMES.lost_seconds
        creations = [RunningStatement(session, f"create temporary table u as {rows(range(5))}") for session in sessions]
        while time.monotonic() < ends:
            for session in sessions:
                assert sorted(row.id for row in session.sql("select id from t").collect()) == list(range(5))
                assert session.range(3).count() == 3
            assert site.locations() == before
            time.sleep(PAUSE_SECONDS)
        for session in sessions:
            assert condition_of(session, "create temporary table u as select 1 as id") == "LODGE_LEASE_LOST"
        refusals = [creation.outcome() for creation in creations]
        assert {refusal.getCondition() for refusal in refusals} <= REFUSALS, refusals
    for session in sessions:
        statement = f"create temporary table u as {rows(range(7))}"
        wait_until(
            lambda session=session, statement=statement: condition_of(session, statement) is None,
            "the gateway recovers",
            60,
        )
        for table, count in (("t", 5), ("dfs.tmp.t", 5), ("u", 7)):
            assert sorted(row.id for row in session.sql(f"select id from {table}").collect()) == list(range(count))
    assert site.locations() == before
    assert "session_reaped" not in "".join(reaper.log() for reaper in site.reapers)
    assert all("Traceback" not in log for log in site.logs().values())
