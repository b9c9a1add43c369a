"""``kubectl delete connectsession`` ends the session: the backend's, then the location, and the object last."""

from tests.chaos.clients import rows
from tests.chaos.rounds import SLACK_SECONDS
from tests.chaos.site import Times
from tests.chaos.statements import Running, condition_of
from tests.cluster.processes import wait_until

TIMES = Times(lease_seconds=30, grace_seconds=30)
"""So long that nothing here ends by them."""
SHORT = Times()
SOON_SECONDS = 10.0
CLOSED = "INVALID_HANDLE.SESSION_CLOSED"


def wait_until_ended(site, session, seconds):
    """Returns: Whether the object outlived the location at every look."""
    uuid = site.record_of(session.session_id).record.session_uuid
    was_last = []
    site.delete_object(session.session_id)

    def is_ended():
        there = uuid in site.locations()
        has_record = site.record_of(session.session_id) is not None
        was_last.append(has_record or not there)
        return not there and not has_record

    wait_until(is_ended, "location and object are gone", seconds)
    wait_until(lambda: not site.trash(), "the trash is empty", seconds)
    return all(was_last)


def test_the_gateway_that_holds_a_session_ends_it_within_seconds(start_site, open_session):
    site = start_site(TIMES, gateways=1, reapers=1)
    session = open_session(*site.gateways)
    session.sql(f"create temporary table t as {rows(range(5))}")
    assert wait_until_ended(site, session, SOON_SECONDS)
    assert condition_of(session, "select 1") == CLOSED
    assert "Deleted session temporary location" in site.gateways[0].log()
    assert all("Traceback" not in log for log in site.logs().values())


def test_a_statement_in_the_middle_ends_with_its_session(start_site, open_session):
    times = Times(lease_seconds=30, grace_seconds=2)
    site = start_site(times, gateways=1, reapers=1)
    session = open_session(*site.gateways)
    writing = Running(session, f"create temporary table t as {rows(range(20), milliseconds=1000)}")
    wait_until(site.locations, "the statement writes", 30)
    site.delete_object(session.session_id)
    wait_until(lambda: site.record_of(session.session_id) is None, "the object is gone", SOON_SECONDS)
    assert isinstance(writing.outcome(), Exception)
    assert condition_of(session, "select 1") == CLOSED
    swept = "the location is gone, also if Spark, which is only asked to end, made it anew"
    wait_until(lambda: not site.locations() and not site.trash(), swept, times.grace_seconds + SLACK_SECONDS)
    assert all("Traceback" not in log for log in site.logs().values())


def test_without_a_gateway_the_reaper_ends_it(start_site, open_session):
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


def test_after_the_gateway_was_lost_the_reaper_ends_it_within_the_lease(start_site, open_session):
    """Asked for, it need not wait for the grace period."""
    times = Times(lease_seconds=2, grace_seconds=300)
    site = start_site(times, gateways=1, reapers=1)
    (gateway,) = site.gateways
    session = open_session(gateway)
    session.sql(f"create temporary table t as {rows(range(5))}")
    gateway.process.kill()
    assert wait_until_ended(site, session, times.lease_seconds + SLACK_SECONDS)
