"""Effects of ``kubectl delete connectsession``, in order.

It ends the backend's session, then the location, then the object. No session ends by the grace period in these tests.
"""

import pytest

from tests.chaos.clients import rows
from tests.chaos.site import Timeouts
from tests.chaos.statements import RunningStatement, condition_of
from tests.cluster.processes import wait_until

pytestmark = pytest.mark.slow

TIMES = Timeouts(grace_seconds=3600)
STATEMENT_SECONDS = 600
SOON_SECONDS = 60.0
CLOSED = "INVALID_HANDLE.SESSION_CLOSED"


def wait_until_ended(site, session):
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

    wait_until(is_ended, "location and object are gone", SOON_SECONDS)
    wait_until(lambda: not site.trash(), "the trash is empty", SOON_SECONDS)
    return all(was_last)


def test_serving_gateway_ends_idle_and_busy_sessions(start_site, open_session):
    site = start_site(TIMES, gateways=1, reapers=1)
    idle, busy = (open_session(*site.gateways, user=user) for user in ("ada", "bob"))
    idle.sql(f"create temporary table t as {rows(range(5))}")
    assert wait_until_ended(site, idle)
    assert condition_of(idle, "select 1") == CLOSED
    assert "Deleted session temporary location" in site.gateways[0].log()

    query = rows(range(STATEMENT_SECONDS), milliseconds=1000)
    writing = RunningStatement(busy, f"create temporary table t as {query}")
    wait_until(site.locations, "the statement writes", SOON_SECONDS)
    site.delete_object(busy.session_id)
    wait_until(lambda: site.record_of(busy.session_id) is None, "the object is gone", SOON_SECONDS)
    assert isinstance(writing.outcome(), Exception), "the statement ends with its session"
    assert condition_of(busy, "select 1") == CLOSED
    assert all("Traceback" not in log for log in site.logs().values())


def test_reaper_ends_session_of_lost_gateway_within_the_lease(start_site, open_session):
    """A requested end does not wait for the grace period."""
    site = start_site(TIMES, gateways=1, reapers=1)
    (gateway,) = site.gateways
    session = open_session(gateway)
    session.sql(f"create temporary table t as {rows(range(5))}")
    gateway.process.kill()
    assert wait_until_ended(site, session)
    assert "Deleted session temporary location" in site.reapers[0].log()
    gateway.start()
    assert condition_of(session, "select 1") == CLOSED
    assert all("Traceback" not in log for log in site.logs().values())
