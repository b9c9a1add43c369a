"""Failed nodes, and nodes that only seem to fail.

A failed node ends the sessions of its gateway if no other gateway adopts them. A node that only seems to fail does not.
"""

import time

import pytest

from tests.chaos.clients import rows
from tests.chaos.rounds import SLACK_SECONDS
from tests.chaos.site import Timeouts
from tests.cluster.processes import wait_until

pytestmark = pytest.mark.slow

LONG = Timeouts(lease_seconds=14, grace_seconds=10)
"""Long enough for the cluster to notice a lost node before the lease lapses."""


def test_node_failure_removes_locations_of_its_gateway(start_site, open_session):
    site = start_site(LONG)  # without another gateway that could adopt the sessions
    failing, crashing = site.gateways
    lost, crashed = (open_session(gateway, user=gateway.name) for gateway in site.gateways)
    for session in (lost, crashed):
        session.sql(f"create temporary table t as {rows(range(5))}")
    uuid, later = (site.record_of(session.session_id).record.session_uuid for session in (lost, crashed))
    failing.node.fail()
    for gateway in (failing, crashing):
        gateway.process.kill()
    try:
        begun = time.monotonic()
        wait_until(lambda: uuid not in site.locations(), "the location is gone", LONG.lost_seconds + SLACK_SECONDS)
        seconds = time.monotonic() - begun
        assert later in site.locations(), "only the lease tells that a gateway on a healthy node is lost"
        wait_until(lambda: site.record_of(lost.session_id) is None and not site.trash(), "the session is gone", 10)
        wait_until(
            lambda: later not in site.locations(), "the other location is gone too", LONG.lost_seconds + SLACK_SECONDS
        )
    finally:
        failing.node.recover()
    assert seconds > LONG.lease_seconds / 2  # the last renewal was at most a third of the duration earlier
    assert all("Traceback" not in log for log in site.logs().values())


def test_gateway_on_unreachable_node_keeps_sessions_while_it_renews_its_lease(start_site, open_session):
    times = Timeouts()
    site = start_site(times)
    silent = site.gateways[0]
    session = open_session(silent)
    session.sql(f"create temporary table t as {rows(range(5))}")
    before = site.locations()
    silent.node.fail()
    try:
        silent.node.wait_until_lost()
        until = time.monotonic() + 2 * times.lost_seconds
        while time.monotonic() < until:
            session.sql(f"insert overwrite t {rows(range(9))}")
            assert sorted(row.id for row in session.sql("select id from t").collect()) == list(range(9))
            assert site.locations() == before
    finally:
        silent.node.recover()
        silent.node.wait_until_ready()
    assert "session_reaped" not in "".join(reaper.log() for reaper in site.reapers)
    assert all("Traceback" not in log for log in site.logs().values())
