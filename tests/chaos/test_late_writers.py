"""Spark writes into a removed location, and the reaper removes the files again."""

import pytest

from tests.chaos.clients import rows
from tests.chaos.connections import connect_to_backend
from tests.chaos.rounds import SLACK_SECONDS
from tests.chaos.site import Timeouts
from tests.chaos.statements import RunningStatement
from tests.cluster.processes import wait_until

pytestmark = pytest.mark.slow

TIMES = Timeouts()
GONE_SECONDS = TIMES.lost_seconds + SLACK_SECONDS


def test_files_of_late_writer_are_swept(start_site, open_session, testbed):
    site = start_site(TIMES, gateways=1, reapers=1)
    (gateway,) = site.gateways
    session = open_session(gateway)
    session.sql(f"create temporary table t as {rows(range(5))}")
    record = site.record_of(session.session_id).record
    path = site.path / record.session_uuid / record.tables[0].uuid
    files = 300  # many more than concurrent tasks, so that new ones keep starting
    query = rows(range(files), milliseconds=500, files=files)
    job = f"insert overwrite directory '{path.as_uri()}/late' using parquet {query}"
    late = RunningStatement(connect_to_backend(testbed.backend.address), job)
    wait_until((site.location(record.session_uuid) / record.tables[0].uuid / "late").exists, "the job writes", 60)

    site.delete_object(session.session_id)
    reaper = site.reapers[0]
    deletion = f"Deleted session temporary location [{site.path / record.session_uuid}]"
    wait_until(lambda: deletion in gateway.log(), "the location is removed", GONE_SECONDS)
    assert late.is_running()
    wait_until(lambda: record.session_uuid in site.locations(), "the job restores it", 60)

    late.outcome()
    wait_until(lambda: not site.locations() and not site.trash(), "it is swept", GONE_SECONDS)
    assert not site.records()
    assert "orphan_location_deleted" in reaper.log()
    assert "Traceback" not in reaper.log()
