"""Effects of ``kubectl delete connectsession``, in order.

It ends the backend's session, then the location, then the object.
"""

import pytest

from tests.chaos.clients import rows
from tests.chaos.rounds import SLACK_SECONDS
from tests.chaos.site import Timeouts
from tests.chaos.statements import RunningStatement, condition_of
from tests.cluster.processes import wait_until

pytestmark = pytest.mark.slow

TIMES = Timeouts(lease_seconds=30, grace_seconds=30)
"""So long that no session ends by lease or grace period."""
SHORT = Timeouts()
SOON_SECONDS = 10.0
CLOSED = "INVALID_HANDLE.SESSION_CLOSED"


def wait_until_ended(site, session, seconds):
    """Delete a session and wait until it has ended.

    Returns:
        Whether the object outlived the location at every check.
    """
    uuid = site.record_of(session.session_id).record.session_uuid
    was_last = []
    site.delete_object(session.session_id)

    def is_ended():
        has_record = site.record_of(session.session_id) is not None  # first, because the object is removed last
        there = uuid in site.locations()
        was_last.append(has_record or not there)
        return not there and not has_record

    wait_until(is_ended, "location and object are gone", seconds)
    wait_until(lambda: not site.trash(), "the trash is empty", seconds)
    return all(was_last)


def test_serving_gateway_ends_session_within_seconds(start_site, open_session):
    site = start_site(TIMES, gateways=1, reapers=1)
    session = open_session(*site.gateways)
    session.sql(f"create temporary table t as {rows(range(5))}")
    assert wait_until_ended(site, session, SOON_SECONDS)
    assert condition_of(session, "select 1") == CLOSED
    assert "Deleted session temporary location" in site.gateways[0].log()
    assert all("Traceback" not in log for log in site.logs().values())


def test_running_statement_ends_with_its_session(start_site, open_session):
    times = Timeouts(lease_seconds=30, grace_seconds=2)
    site = start_site(times, gateways=1, reapers=1)
    session = open_session(*site.gateways)
    writing = RunningStatement(session, f"create temporary table t as {rows(range(20), milliseconds=1000)}")
    wait_until(site.locations, "the statement writes", 30)
    site.delete_object(session.session_id)
    wait_until(lambda: site.record_of(session.session_id) is None, "the object is gone", SOON_SECONDS)
    assert isinstance(writing.outcome(), Exception)
    assert condition_of(session, "select 1") == CLOSED
    swept = "the location is gone, even if Spark created it again"
    wait_until(lambda: not site.locations() and not site.trash(), swept, times.grace_seconds + SLACK_SECONDS)
    assert all("Traceback" not in log for log in site.logs().values())


def test_reaper_ends_session_without_a_gateway(start_site, open_session):
    site = start_site(SHORT, gateways=1, reapers=1)
    (gateway,) = site.gateways
    session = open_session(gateway)
    session.sql(f"create temporary table t as {rows(range(5))}")
    gateway.process.kill()
    assert wait_until_ended(site, session, SHORT.lost_seconds + SLACK_SECONDS)
    assert "Deleted session temporary location" in site.reapers[0].log()
    gateway.start()
    assert condition_of(session, "select 1") == CLOSED
    assert all("Traceback" not in log for log in site.logs().values())


def test_reaper_ends_session_of_lost_gateway_within_the_lease(start_site, open_session):
    """A requested end does not wait for the grace period."""
    times = Timeouts(lease_seconds=2, grace_seconds=300)
    site = start_site(times, gateways=1, reapers=1)
    (gateway,) = site.gateways
    session = open_session(gateway)
    session.sql(f"create temporary table t as {rows(range(5))}")
    gateway.process.kill()
    assert wait_until_ended(site, session, times.lease_seconds + SLACK_SECONDS)
