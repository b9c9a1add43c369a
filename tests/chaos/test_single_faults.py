"""One fault at a time. All tests use one Lodge, and nothing remains in it after a test."""

import time
import uuid

import grpc
import pytest
from pyspark.errors import PySparkException
from pyspark.sql.connect.proto import base_pb2

from tests.chaos.connections import connect_to_backend
from tests.chaos.leftovers import find_leftovers, find_tracebacks
from tests.chaos.logs import save_logs
from tests.chaos.site import Site, Timeouts
from tests.chaos.statements import RunningStatement, condition_of
from tests.chaos.storage import Storage
from tests.chaos.table_changes import rows
from tests.cluster.processes import ClusterError, wait_until

pytestmark = pytest.mark.slow

TIMES = Timeouts()
PAUSE_SECONDS = 3.0
WITHOUT_API_SERVER = {"LODGE_LEASE_LOST", "LODGE_STORAGE_UNAVAILABLE"}
"""The gateway knows that its lease lapsed, or first finds that it cannot read records."""

AFTER_REAPING = ("LODGE_LEASE_LOST", "INVALID_HANDLE.SESSION_CLOSED")


@pytest.fixture(scope="module")
def shared_site(testbed):
    """A Lodge of two gateways and a reaper. A test that ends one of them starts it again, unless the test fails."""
    with Site(testbed, "shared", TIMES, reapers=1) as site:
        yield site


@pytest.fixture
def site(shared_site, request):
    """The shared Lodge, without sessions before and after the test. Request it before `open_session`."""
    failures = request.session.testsfailed
    yield shared_site
    if request.session.testsfailed > failures:
        print(f"Logs: {save_logs(shared_site.testbed.directory)}")
        for replica in shared_site.replicas:
            replica.process.kill()
            replica.start()
        return
    shared_site.wait_until(lambda: not find_leftovers(shared_site, frozenset()), "nothing remains")
    assert not find_tracebacks(shared_site)


def create_table(session, name, ids):
    """Create a temporary table with these ids."""
    session.sql(f"create temporary table {name} as {rows(ids)}").collect()


def wait_until_created(site, session, name, ids):
    """Create a temporary table as soon as the gateway accepts that again."""
    statement = f"create temporary table {name} as {rows(ids)}"
    site.wait_until(lambda: condition_of(session, statement) is None, "the gateway accepts statements again")


def ids_of(session, table):
    return sorted(row.id for row in session.sql(f"select id from {table}").collect())


class Query:
    """A query whose stream of responses can be lost."""

    def __init__(self, session):
        self._client = session.client
        options = {"session_id": session.session_id, "user_context": {"user_id": self._client._user_id}}
        self._execute = base_pb2.ExecutePlanRequest(
            **options, operation_id=str(uuid.uuid4()), plan=session.range(3)._plan.to_proto(self._client)
        )
        self._execute.request_options.add().reattach_options.reattachable = True
        self._reattach = base_pb2.ReattachExecuteRequest(**options, operation_id=self._execute.operation_id)

    def start(self):
        """Execute the query, and lose the stream after the first response."""
        stream = self._client._stub.ExecutePlan(self._execute, metadata=self._client._builder.metadata())
        next(stream)
        stream.cancel()

    def reattach(self):
        """Return whether the stream continues to its end."""
        try:
            stream = self._client._stub.ReattachExecute(self._reattach, metadata=self._client._builder.metadata())
            return list(stream)[-1].HasField("result_complete")
        except grpc.RpcError as error:
            self._client._handle_error(error)


def has_reaped(site, uuid):
    (reaper,) = site.reapers
    return any("session_reaped" in line and uuid in line for line in reaper.log().splitlines())


def test_gateways_without_api_server_fence_and_recover_with_all_data(site, open_session, testbed):
    """The API server is absent for longer than lease and grace period."""
    sessions = [open_session(gateway, user=gateway.name) for gateway in site.gateways]
    for session in sessions:
        create_table(session, "t", range(5))
    before = site.locations()
    query, unknown = Query(sessions[0]), Query(sessions[0])
    query.start()
    with testbed.cluster.api_server.stopped():
        assert query.reattach()
        with pytest.raises(PySparkException, match="LODGE_STORAGE_UNAVAILABLE"):
            unknown.reattach()
        ends = time.monotonic() + 1.3 * TIMES.lost_seconds
        creations = [RunningStatement(session, f"create temporary table u as {rows(range(5))}") for session in sessions]
        while time.monotonic() < ends:
            for session in sessions:
                assert ids_of(session, "t") == list(range(5))
                assert session.range(3).count() == 3
            assert site.locations() == before
            time.sleep(PAUSE_SECONDS)
        for session in sessions:
            assert condition_of(session, "create temporary table u as select 1 as id") == "LODGE_LEASE_LOST"
        refusals = [creation.outcome() for creation in creations]
        assert {refusal.getCondition() for refusal in refusals} <= WITHOUT_API_SERVER, refusals
    for session in sessions:
        wait_until_created(site, session, "u", range(7))
        for table, count in (("t", 5), ("dfs.tmp.t", 5), ("u", 7)):
            assert ids_of(session, table) == list(range(count))
    assert site.locations() == before
    assert not any(has_reaped(site, uuid) for uuid in before)


def test_paused_gateway_refuses_reaped_session(site, open_session):
    paused, other = site.gateways
    other.process.kill()
    session = open_session(paused)
    create_table(session, "t", range(5))
    uuid = site.record_of(session.session_id).record.session_uuid

    paused.process.pause()
    waiting = RunningStatement(session, f"create temporary table u as {rows(range(5))}")
    site.wait_until(lambda: site.record_of(session.session_id) is None, "the session is reaped")
    site.wait_until(lambda: uuid not in site.locations(), "its location is gone")
    paused.process.resume()

    refusal = waiting.outcome()
    assert refusal.getCondition() in AFTER_REAPING, refusal
    assert condition_of(session, f"create temporary table v as {rows(range(5))}") in AFTER_REAPING
    assert uuid not in site.locations()
    other.start()


def test_sessions_and_insertion_of_paused_gateway_continue_once(site, open_session):
    paused, other = site.gateways
    alone, shared = open_session(paused, user="alone"), open_session(paused, user="shared")
    for session in (alone, shared):
        create_table(session, "t", range(5))
    kept = open_session(other, user="shared", session_id=shared.session_id)
    kept.sql("select 1").collect()
    writing = RunningStatement(shared, f"insert into t {rows(range(5, 15), milliseconds=800)}")
    uuids = [site.record_of(session.session_id).record.session_uuid for session in (alone, shared)]
    location = site.location(uuids[1])
    wait_until(lambda: list(location.rglob("_temporary")), "the job writes", 60)

    paused.process.pause()
    site.wait_until(lambda: site.holders()[alone.session_id] == {other.name}, "the other gateway adopts the session")
    site.wait_until(
        lambda: not site.record_of(shared.session_id).record.tables[0].writes,
        "the other gateway has completed the insertion",
    )
    assert ids_of(kept, "t") == list(range(15))
    paused.process.resume()
    writing.outcome()

    for session, count in ((alone, 5), (shared, 15)):
        wait_until_created(site, session, "u", range(3))
        assert ids_of(session, "t") == list(range(count))
        assert site.holders()[session.session_id] == {paused.name, other.name}
    site.wait_until(lambda: len(list(location.iterdir())) == 3, "no other files exist")
    assert "statement_taken_over" in other.log()
    assert not any(has_reaped(site, uuid) for uuid in uuids)


def test_statement_whose_result_spark_discarded_is_undone(site, open_session, testbed):
    """No process of Lodge runs while Spark waits for somebody who reads the result."""
    session = open_session(site.gateways[0], patience_seconds=90)
    create_table(session, "t", range(5))
    location = site.location(site.record_of(session.session_id).record.session_uuid)
    writing = RunningStatement(session, f"insert into t {rows(range(5, 8), milliseconds=800)}")
    wait_until(lambda: list(location.rglob("_temporary")), "the job writes", 60)
    for replica in site.replicas:
        replica.process.kill()
    operation = next(location.rglob("_temporary")).parent.name
    wait_until(lambda: f",{operation}) is removed" in testbed.backend.log(), "Spark discards the result", 60)
    for replica in site.replicas:
        replica.start()

    assert writing.outcome().getCondition() == "LODGE_STATEMENT_LOST"
    assert ids_of(session, "t") == list(range(5))
    site.wait_until(lambda: len(list(location.iterdir())) == 1, "the files of the insertion are removed")


def test_files_of_late_writer_are_swept(site, open_session, testbed):
    """Spark writes into a removed location, and the reaper removes the files again."""
    gateway, (reaper,) = site.gateways[0], site.reapers
    session = open_session(gateway)
    create_table(session, "t", range(5))
    record = site.record_of(session.session_id).record
    uuid, table = record.session_uuid, record.tables[0].uuid
    backend = connect_to_backend(testbed.backend.address)
    backend.conf.set("spark.sql.maxConcurrentOutputFileWriters", "1000")  # the rows are written without sorting
    place = (site.path / uuid / table / "late").as_uri()
    query = rows(range(1000), milliseconds=200)  # each row goes into a directory of its own
    job = f"create table late using parquet partitioned by (id) location '{place}' as {query}"
    late = RunningStatement(backend, job)
    wait_until((site.location(uuid) / table / "late").exists, "the job writes", 60)

    site.delete_object(session.session_id)
    deletion = f"Deleted session temporary location [{site.path / uuid}]"
    wait_until(lambda: deletion in gateway.log(), "the location is removed", 60)
    assert late.is_running()
    wait_until(lambda: uuid in site.locations(), "the job restores it", 60)

    backend.interruptAll()
    late.outcome()
    site.wait_until(lambda: not site.locations() and not site.trash(), "it is swept")
    assert not site.records()
    assert any("orphan_location_deleted" in line and uuid in line for line in reaper.log().splitlines())


def test_processes_without_true_storage_change_nothing(site, open_session, testbed):
    """The storage is missing, or replaced by an empty one. A gateway and the reaper start, and a gateway continues."""
    staying, starting = site.gateways
    (reaper,) = site.reapers
    session = open_session(staying)
    create_table(session, "t", range(5))
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
            creation = f"create temporary table u as {rows(range(5))}"
            assert condition_of(session, creation) == "LODGE_STORAGE_UNAVAILABLE"
            assert set(testbed.storage.root.rglob("*")) == found
    starting.start()
    reaper.start()
    wait_until(lambda: "leadership_acquired" in reaper.log().rpartition("reaper_started")[2], "the reaper works", 60)
    create_table(session, "u", range(7))
    for table, count in (("t", 5), ("dfs.tmp.t", 5), ("u", 7)):
        assert ids_of(session, table) == list(range(count))
    assert site.locations() == before
