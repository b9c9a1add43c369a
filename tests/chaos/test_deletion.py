"""Effects of ``kubectl delete connectsession``, in order.

It ends the backend's session, then the location, then the object. No session ends by the grace period in these tests.
"""

import pytest

from tests.chaos.site import Timeouts
from tests.chaos.statements import RunningStatement, condition_of
from tests.chaos.table_changes import rows
from tests.cluster.processes import wait_until

pytestmark = pytest.mark.slow

TIMES = Timeouts(grace_seconds=3600)
STATEMENT_SECONDS = 600
SOON_SECONDS = 60.0
CLOSED = "INVALID_HANDLE.SESSION_CLOSED"


def require_end(site, session, *, by):
    """Delete a session, and check that a replica deletes its location, and then its object."""
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
    assert all(was_last)
    deletion = f"Deleted session temporary location [{site.path / uuid}]"
    wait_until(lambda: deletion in by.log(), f"{by.name} logs the deletion", SOON_SECONDS)


def test_gateway_ends_its_sessions_and_a_reaper_those_of_a_lost_gateway(start_site, open_session):
    """A requested end does not wait for the grace period after the lease of a lost gateway."""
    site = start_site(TIMES, gateways=1, reapers=1)
    (gateway,), (reaper,) = site.gateways, site.reapers
    idle, busy, lost = (open_session(gateway, user=user) for user in ("ada", "bob", "eve"))
    idle.sql(f"create temporary table t as {rows(range(5))}")
    require_end(site, idle, by=gateway)
    assert condition_of(idle, "select 1") == CLOSED

    query = rows(range(STATEMENT_SECONDS), milliseconds=1000)
    writing = RunningStatement(busy, f"create temporary table t as {query}")
    wait_until(site.locations, "the statement writes", SOON_SECONDS)
    site.delete_object(busy.session_id)
    wait_until(lambda: site.record_of(busy.session_id) is None, "the object is gone", SOON_SECONDS)
    assert isinstance(writing.outcome(), Exception), "the statement ends with its session"
    assert condition_of(busy, "select 1") == CLOSED

    lost.sql(f"create temporary table t as {rows(range(5))}")
    gateway.process.kill()
    require_end(site, lost, by=reaper)
    gateway.start()
    assert condition_of(lost, "select 1") == CLOSED
    assert all("Traceback" not in log for log in site.logs().values())
