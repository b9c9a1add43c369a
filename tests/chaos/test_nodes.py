"""A node that fails takes its gateway's sessions with it, as soon as they are sure to be lost; one that only seems to
fail takes nothing."""

import time

from tests.chaos.clients import rows
from tests.chaos.rounds import SLACK_SECONDS
from tests.chaos.site import Times
from tests.cluster.processes import wait_until

LONG = Times(lease_seconds=14, grace_seconds=6)
"""The cluster knows of a lost node before the lease has lapsed, and the grace period is over when it has."""


def test_after_a_node_failure_the_locations_of_its_gateway_are_removed(start_site, open_session):
    site = start_site(LONG)
    failing, other = site.gateways
    lost, kept = open_session(failing, user="lost"), open_session(other, user="kept")
    for session in (lost, kept):
        session.sql(f"create temporary table t as {rows(range(5))}")
    uuid = site.record_of(lost.session_id).record.session_uuid
    failing.node.fail()
    failing.process.kill()
    try:
        begun = time.monotonic()
        wait_until(lambda: uuid not in site.locations(), "the location is gone", LONG.lost_seconds + SLACK_SECONDS)
        seconds = time.monotonic() - begun
        print(f"Removed {seconds:.1f} s after the failure of the node, of {LONG.lost_seconds:g} s as configured.")
        wait_until(lambda: site.record_of(lost.session_id) is None and not site.trash(), "nothing is left of it", 10)
    finally:
        failing.node.recover()
    assert sorted(row.id for row in kept.sql("select id from t").collect()) == list(range(5))
    assert seconds > LONG.lease_seconds / 2  # its lease was renewed a third of that before, at most
    assert all("Traceback" not in log for log in site.logs().values())


def test_a_gateway_whose_node_is_lost_to_the_cluster_keeps_its_sessions_while_it_renews_its_lease(
    start_site, open_session
):
    times = Times()
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
