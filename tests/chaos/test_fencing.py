"""A gateway that was paused past its lease touches nothing that it no longer owns."""

import pytest

from tests.chaos.clients import rows
from tests.chaos.rounds import SLACK_SECONDS
from tests.chaos.site import Timeouts
from tests.chaos.statements import RunningStatement, condition_of
from tests.cluster.processes import wait_until

pytestmark = pytest.mark.slow

TIMES = Timeouts()
GONE_SECONDS = TIMES.lost_seconds + SLACK_SECONDS
REFUSALS = ("LODGE_LEASE_LOST", "INVALID_HANDLE.SESSION_CLOSED")


def test_paused_gateway_refuses_reaped_session(start_site, open_session):
    site = start_site(TIMES, gateways=1)
    (paused,) = site.gateways
    session = open_session(paused)
    session.sql(f"create temporary table t as {rows(range(5))}")
    uuid = site.record_of(session.session_id).record.session_uuid

    paused.process.pause()
    waiting = RunningStatement(session, f"create temporary table u as {rows(range(5))}")
    wait_until(lambda: site.record_of(session.session_id) is None, "the session is reaped", GONE_SECONDS)
    wait_until(lambda: uuid not in site.locations(), "its location is gone", GONE_SECONDS)
    paused.process.resume()

    refusal = waiting.outcome()
    assert refusal.getCondition() in REFUSALS, refusal
    assert condition_of(session, f"create temporary table v as {rows(range(5))}") in REFUSALS
    assert uuid not in site.locations()
    assert "Traceback" not in paused.log()


def test_sessions_and_insertion_of_paused_gateway_continue_once(start_site, open_session):
    site = start_site(TIMES)
    paused, other = site.gateways
    alone, shared = open_session(paused, user="alone"), open_session(paused, user="shared")
    for session in (alone, shared):
        session.sql(f"create temporary table t as {rows(range(5))}")
    kept = open_session(other, user="shared", session_id=shared.session_id)
    kept.sql("select 1").collect()
    writing = RunningStatement(shared, f"insert into t {rows(range(5, 15), milliseconds=800)}")
    uuid = site.record_of(shared.session_id).record.session_uuid
    wait_until(lambda: list(site.location(uuid).rglob("_temporary")), "the job writes", 60)

    paused.process.pause()
    wait_until(
        lambda: site.holders()[alone.session_id] == {other.name}, "the other gateway adopts the session", GONE_SECONDS
    )
    wait_until(
        lambda: not site.record_of(shared.session_id).record.tables[0].writes,
        "the other gateway has completed the insertion",
        GONE_SECONDS,
    )
    assert sorted(row.id for row in kept.sql("select id from t").collect()) == list(range(15))
    paused.process.resume()
    writing.outcome()

    for session, count in ((alone, 5), (shared, 15)):
        wait_until(
            lambda session=session: condition_of(session, f"create temporary table u as {rows(range(3))}") is None,
            "the gateway has joined the session again",
            60,
        )
        assert sorted(row.id for row in session.sql("select id from t").collect()) == list(range(count))
        assert site.holders()[session.session_id] == {paused.name, other.name}
    wait_until(lambda: len(list(site.location(uuid).iterdir())) == 3, "no other files exist", GONE_SECONDS)
    assert "statement_taken_over" in other.log()
    assert "session_reaped" not in "".join(reaper.log() for reaper in site.reapers)
    assert "Traceback" not in paused.log()
