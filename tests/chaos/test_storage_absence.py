"""Processes without their storage delete nothing and create nothing.

The storage is missing, or replaced by an empty one.
"""

import pytest

from tests.chaos.clients import rows
from tests.chaos.site import Timeouts
from tests.chaos.statements import condition_of
from tests.chaos.storage import Storage
from tests.cluster.processes import ClusterError, wait_until

pytestmark = pytest.mark.slow

TIMES = Timeouts()


def test_processes_that_start_without_true_storage_change_nothing(start_site, open_session, testbed):
    site = start_site(TIMES, gateways=2, reapers=1)
    staying, starting = site.gateways
    (reaper,) = site.reapers
    session = open_session(staying)
    session.sql(f"create temporary table t as {rows(range(5))}")
    before = site.locations()
    starting.process.kill()
    reaper.process.kill()
    for broken in (Storage.gone, Storage.empty):
        with broken(testbed.storage):
            found = set(testbed.storage.root.rglob("*"))
            for replica in (starting, reaper):
                with pytest.raises(ClusterError, match="ended with status"):
                    replica.process.start()
                replica.process.kill()
            statement = f"create temporary table u as {rows(range(5))}"
            assert condition_of(session, statement) == "LODGE_STORAGE_UNAVAILABLE"
            assert set(testbed.storage.root.rglob("*")) == found
    starting.start()
    reaper.start()
    wait_until(lambda: "leadership_acquired" in reaper.log().rpartition("reaper_started")[2], "the reaper works", 60)
    assert condition_of(session, f"create temporary table u as {rows(range(7))}") is None
    for table, count in (("t", 5), ("dfs.tmp.t", 5), ("u", 7)):
        assert sorted(row.id for row in session.sql(f"select id from {table}").collect()) == list(range(count))
    assert site.locations() == before
    assert all("Traceback" not in log for log in site.logs().values())
