"""A Spark job that nobody could stop writes into a location that was reaped: what it brings back is swept."""

from tests.chaos.clients import rows
from tests.chaos.connections import connect_to_backend
from tests.chaos.rounds import SLACK_SECONDS
from tests.chaos.site import Times
from tests.chaos.statements import Running
from tests.cluster.processes import wait_until

TIMES = Times()
GONE_SECONDS = TIMES.lost_seconds + SLACK_SECONDS


def test_what_a_late_writer_brings_back_is_swept(start_site, open_session, ground):
    site = start_site(TIMES, gateways=1, reapers=1)
    (gateway,) = site.gateways
    session = open_session(gateway)
    session.sql(f"create temporary table t as {rows(range(5))}")
    record = site.record_of(session.session_id).record
    path = site.path / record.session_uuid / record.tables[0].uuid
    files = 200  # many more than tasks run at once, so that new ones are begun all the time
    query = rows(range(files), milliseconds=500, files=files)
    job = f"insert overwrite directory '{path.as_uri()}/late' using parquet {query}"
    late = Running(connect_to_backend(ground.backend.address), job)
    wait_until((site.location(record.session_uuid) / record.tables[0].uuid / "late").exists, "the job writes", 30)

    gateway.process.kill()
    reaper = site.reapers[0]
    told = f"Deleted session temporary location [{site.path / record.session_uuid}]"
    wait_until(lambda: told in reaper.log(), "the location is reaped", GONE_SECONDS)
    assert late.is_under_way()
    wait_until(lambda: record.session_uuid in site.locations(), "the job brings it back", 30)

    late.outcome()
    wait_until(lambda: not site.locations() and not site.trash(), "it is swept", GONE_SECONDS)
    assert not site.records()
    assert "orphan_location_deleted" in reaper.log()
    assert "Traceback" not in reaper.log()
