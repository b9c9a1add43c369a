"""Without the API server for longer than lease and grace period: gateways fence, nothing is deleted, all goes on."""

import time

import pytest

from tests.chaos.clients import rows
from tests.chaos.site import Times
from tests.chaos.statements import Running, condition_of
from tests.cluster.processes import wait_until

TIMES = Times()
REFUSALS = {"LODGE_LEASE_LOST", "LODGE_STORAGE_UNAVAILABLE"}
"""The one as soon as the gateway knows that its lease has lapsed; the other if it finds no records before."""


@pytest.mark.parametrize("process", ["api_server", "etcd"])
def test_gateways_fence_and_go_on_with_all_their_data(start_site, open_session, ground, process):
    site = start_site(TIMES)
    sessions = [open_session(gateway, user=gateway.name) for gateway in site.gateways]
    for session in sessions:
        session.sql(f"create temporary table t as {rows(range(5))}")
    before = site.locations()
    absence = ground.cluster.api_server.stopped() if process == "api_server" else ground.cluster.etcd.paused()
    with absence:
        ends = time.monotonic() + 2 * TIMES.lost_seconds
        creations = [Running(session, f"create temporary table u as {rows(range(5))}") for session in sessions]
        while time.monotonic() < ends:
            for session in sessions:
                assert sorted(row.id for row in session.sql("select id from t").collect()) == list(range(5))
                assert session.range(3).count() == 3
            assert site.locations() == before
        for session in sessions:
            assert condition_of(session, "create temporary table u as select 1 as id") == "LODGE_LEASE_LOST"
        refusals = [creation.outcome() for creation in creations]
        assert {refusal.getCondition() for refusal in refusals} <= REFUSALS, refusals
    for session in sessions:
        statement = f"create temporary table u as {rows(range(7))}"
        wait_until(lambda session=session, statement=statement: condition_of(session, statement) is None, "goes on", 60)
        for table, count in (("t", 5), ("dfs.tmp.t", 5), ("u", 7)):
            assert sorted(row.id for row in session.sql(f"select id from {table}").collect()) == list(range(count))
    assert site.locations() == before
    assert "session_reaped" not in "".join(reaper.log() for reaper in site.reapers)
    assert all("Traceback" not in log for log in site.logs().values())
