"""Discoveries whose progress reaches the client."""

import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import grpc
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql.connect.functions import udf
from pyspark.sql.connect.proto import base_pb2, base_pb2_grpc
from pyspark.sql.connect.session import SparkSession
from pyspark.sql.types import LongType

from gateway.scans.discovery_progress import PROGRESS_AFTER_SECONDS, is_of_discovery
from tests.conftest import wait_until
from tests.workspace.kubernetes.tcp_proxy import TcpProxy

pytestmark = pytest.mark.slow

SECONDS = 60.0
ROWS = 6_000
WITH_EARLY_PROGRESS = """
import sys
from gateway.scans import discovery_progress, kept_statements
from lodge.cli import main
discovery_progress.PROGRESS_AFTER_SECONDS = 0.0
kept_statements.END_SECONDS = {end_seconds}
sys.exit(main())
"""


@contextmanager
def running(function):
    """Run a function in a thread, and yield its future. A test that fails does not wait for the function."""
    thread = ThreadPoolExecutor(1)
    try:
        yield thread.submit(function)
    finally:
        thread.shutdown(wait=False)


@pytest.fixture(scope="module")
def start_early(start_lodge, spark_server):
    """Start gateways that send the progress of each discovery.

    If the first stream of a statement has not ended after ``end_seconds``, another stream does not continue it.
    """

    def start(*, end_seconds=3.0, beside=None):
        program = WITH_EARLY_PROGRESS.format(end_seconds=end_seconds)
        return start_lodge(backend=spark_server, program=("-c", program), beside=beside)

    return start


@pytest.fixture(scope="module")
def lodge(start_early):
    return start_early()


@pytest.fixture(scope="module")
def other_lodge(start_early, lodge):
    return start_early(beside=lodge)


@pytest.fixture(scope="module")
def patient_lodge(start_early, lodge):
    """A gateway that gives the streams of its statements time to end."""
    return start_early(end_seconds=SECONDS, beside=lodge)


@dataclass
class SlowFolder:
    """A directory with ``ROWS`` rows, whose discovery takes until :meth:`release` is called."""

    name: str
    released: Path

    def release(self):
        self.released.touch()


@pytest.fixture(scope="module")
def occupying_session(spark_server):
    """The session that occupies the cores of the backend. It keeps its Python processes from test to test."""
    session = SparkSession.builder.remote(f"{spark_server}/").create()
    yield session
    session.stop()


@pytest.fixture
def folder(lodge, occupying_session, tmp_path, tmp_path_factory):
    """A directory in three files, at a backend whose cores are all occupied until it is released."""
    path = lodge.files / tmp_path_factory.mktemp("folder").name
    path.mkdir()
    for part in range(3):
        rows = range(part, ROWS, 3)
        (path / f"{part}.json").write_text("".join(f'{{"a": {number}}}\n' for number in rows))
    released = tmp_path / "released"

    def occupy(batches):
        for batch in batches:
            (tmp_path / str(batch["id"][0])).touch()
            while not released.exists():
                time.sleep(0.05)
            yield batch

    with running(occupying_session.range(0, 2, 1, 2).mapInArrow(occupy, "id long").collect) as occupation:
        try:
            wait_until(lambda: len(list(tmp_path.iterdir())) == 2 or occupation.done(), "both cores are busy", SECONDS)
            yield SlowFolder(path.name, released)
        finally:
            released.touch()
            occupation.result(SECONDS)


class Progress:
    """A progress handler that records what it is called with."""

    def __init__(self):
        self.stages = []

    def __call__(self, stages, inflight_tasks, operation_id, done):
        self.stages += [stage.stage_id for stage in stages or ()]


@pytest.fixture
def progress(spark):
    handler = Progress()
    spark.registerProgressHandler(handler)
    yield handler
    spark.removeProgressHandler(handler)


def rows_of(spark, folder):
    return sorted(row.a for row in spark.table(f"dfs.`{folder.name}`").collect())


def test_progress_of_discovery_and_of_the_statement_reach_the_client(spark, progress, folder, tmp_path):
    reported = tmp_path / "reported"

    @udf(returnType=LongType())
    def wait(number):
        """Let Spark report the progress of the statement, which it does every two seconds."""
        while number == 0 and not reported.exists():
            time.sleep(0.05)
        return number

    query = spark.table(f"dfs.`{folder.name}`").select(wait("a").alias("a"))
    with running(query.collect) as rows:
        wait_until(lambda: progress.stages or rows.done(), "the handler was called", SECONDS)
        of_discovery = set(progress.stages)
        folder.release()
        try:
            wait_until(lambda: set(progress.stages) > of_discovery or rows.done(), "it was called again", SECONDS)
        finally:
            reported.touch()
        assert sorted(row.a for row in rows.result(SECONDS)) == list(range(ROWS))
    assert len(of_discovery) == 1


def test_interrupt_ends_a_discovery_with_progress(spark, progress, folder):
    with running(lambda: rows_of(spark, folder)) as rows:
        wait_until(lambda: progress.stages or rows.done(), "the handler was called", SECONDS)
        assert len(spark.interruptAll()) == 1
        with pytest.raises(PySparkException, match="OPERATION_CANCELED"):
            rows.result(SECONDS)


def test_client_that_lost_its_connection_continues_at_the_same_gateway(patient_lodge, folder):
    progress = Progress()
    with TcpProxy(int(patient_lodge.target.rpartition(":")[2])) as proxy:
        spark = SparkSession.builder.remote(f"sc://127.0.0.1:{proxy.port}/").create()
        spark.registerProgressHandler(progress)
        with running(lambda: rows_of(spark, folder)) as rows:
            wait_until(lambda: progress.stages or rows.done(), "the handler was called", SECONDS)
            of_first = set(progress.stages)
            proxy.reset()
            wait_until(lambda: set(progress.stages) - of_first or rows.done(), "discovery has begun again", SECONDS)
            folder.release()
            assert rows.result(SECONDS) == list(range(ROWS))
        spark.stop()


def test_client_whose_gateway_was_killed_can_run_the_statement_again(start_early, lodge, folder):
    gateway, progress = start_early(beside=lodge), Progress()
    targets = [gateway]
    with TcpProxy(lambda: int(targets[-1].target.rpartition(":")[2])) as proxy:
        spark = SparkSession.builder.remote(f"sc://127.0.0.1:{proxy.port}/").create()
        spark.registerProgressHandler(progress)
        with running(lambda: rows_of(spark, folder)) as rows:
            wait_until(lambda: progress.stages or rows.done(), "the handler was called", SECONDS)
            targets.append(lodge)
            gateway.process.kill()
            with pytest.raises(PySparkException, match="LODGE_DISCOVERY_LOST"):
                rows.result(SECONDS)
        folder.release()
        assert rows_of(spark, folder) == list(range(ROWS))
        spark.stop()


class Client:
    """A client of a session that sends messages without the retries of PySpark."""

    def __init__(self, session_id):
        self._identity = {"session_id": session_id, "operation_id": str(uuid.uuid4())}
        self._identity["user_context"] = base_pb2.UserContext(user_id="ann")

    @property
    def operation_id(self):
        return self._identity["operation_id"]

    def start_statement(self):
        self._identity["operation_id"] = str(uuid.uuid4())

    def execute(self, stub, query, timeout=SECONDS):
        plan = base_pb2.Plan()
        if query.startswith("select"):
            plan.root.sql.query = query
        else:
            plan.command.sql_command.input.sql.query = query
        return self._execute(stub, plan, timeout)

    def create_global_view(self, stub, name, query):
        plan = base_pb2.Plan()
        view = plan.command.create_dataframe_view
        view.name, view.is_global, view.input.sql.query = name, True, query
        return self._execute(stub, plan, SECONDS)

    def _execute(self, stub, plan, timeout):
        request = base_pb2.ExecutePlanRequest(**self._identity, plan=plan)
        request.request_options.add().reattach_options.reattachable = True
        return stub.ExecutePlan(request, timeout=timeout)

    def reattach(self, stub, last_response_id):
        request = base_pb2.ReattachExecuteRequest(**self._identity, last_response_id=last_response_id)
        return stub.ReattachExecute(request, timeout=SECONDS)

    def release(self, stub, response_id=None):
        request = base_pb2.ReleaseExecuteRequest(**self._identity)
        if response_id is None:
            request.release_all.SetInParent()
        else:
            request.release_until.response_id = response_id
        return stub.ReleaseExecute(request, timeout=SECONDS)

    def interrupt_all(self, stub):
        kind = base_pb2.InterruptRequest.INTERRUPT_TYPE_ALL
        session = {key: self._identity[key] for key in ("session_id", "user_context")}
        return stub.Interrupt(base_pb2.InterruptRequest(**session, interrupt_type=kind), timeout=SECONDS)

    def is_own(self, response):
        return (response.session_id, response.operation_id) == (
            self._identity["session_id"],
            self._identity["operation_id"],
        )


@contextmanager
def stub_of(gateway):
    with grpc.insecure_channel(gateway.target) as channel:
        yield base_pb2_grpc.SparkConnectServiceStub(channel)


@pytest.fixture
def stub(lodge):
    with stub_of(lodge) as stub:
        yield stub


@pytest.fixture(params=["same gateway", "other gateway"])
def second_stub(request, stub, other_lodge):
    """The gateway to which the client connects after it has lost its stream."""
    if request.param == "same gateway":
        yield stub
    else:
        with stub_of(other_lodge) as other:
            yield other


@pytest.fixture(scope="module")
def session_id():
    return str(uuid.uuid4())


@pytest.fixture
def clients(session_id):
    """Two clients that send statements in the same session."""
    return Client(session_id), Client(session_id)


@pytest.fixture
def client(session_id):
    return Client(session_id)


@pytest.fixture
def name():
    """A name of a table or a view that the session does not have."""
    return f"t_{uuid.uuid4().hex}"


@pytest.fixture
def other_table(client, stub, name):
    """A temporary table of the session. Lodge examines lasting views only in sessions that have one."""
    list(client.execute(stub, f"create temporary table {name} (a int)"))
    client.start_statement()


def rows_in(responses):
    found = []
    for response in responses:
        data = response.arrow_batch.data or response.sql_command_result.relation.local_relation.data
        if data:
            with pa.ipc.open_stream(data) as stream:
                found += stream.read_all().column(0).to_pylist()
    return sorted(found)


def test_discovery_is_one_operation_with_the_statement(client, stub, folder):
    stream = client.execute(stub, f"select * from dfs.`{folder.name}`")
    first = next(stream)
    assert first.HasField("execution_progress")
    assert is_of_discovery(first.response_id)
    assert client.is_own(first)
    assert client.is_own(client.release(stub, first.response_id))
    folder.release()
    responses = list(stream)
    assert rows_in(responses) == list(range(ROWS))
    assert all(client.is_own(each) for each in responses)
    assert {each.server_side_session_id for each in responses} == {first.server_side_session_id}
    assert len({each.response_id for each in responses}) == len(responses)


def texts_of(folder, name):
    """Return a query and the creation of a table."""
    query = f"select * from dfs.`{folder.name}`"
    return query, f"create temporary table {name} as {query}"


RESULTS = (list(range(ROWS)), ["0_0"])
"""The results of these statements."""


def test_client_that_lost_its_stream_after_discovery_receives_the_result(clients, stub, second_stub, folder, name):
    texts = texts_of(folder, name)
    streams = [each.execute(stub, text) for each, text in zip(clients, texts, strict=True)]
    last_response_ids = [next(stream).response_id for stream in streams]
    clients[1].release(stub, last_response_ids[1])
    folder.release()
    for number, client in enumerate(clients):
        list(streams[number])
        responses = list(client.reattach(second_stub, last_response_ids[number]))
        assert rows_in(responses) == RESULTS[number]
        assert responses[-1].HasField("result_complete")


def test_lost_statement_does_not_begin_later(clients, stub, second_stub, folder):
    """One client releases its statement. The other one asks again, as if the answer was lost."""
    streams = {each: each.execute(stub, f"select * from dfs.`{folder.name}`") for each in clients}
    last_response_ids = {each: next(stream).response_id for each, stream in streams.items()}
    for each in (*clients, clients[1]):
        with pytest.raises(grpc.RpcError, match="LODGE_DISCOVERY_LOST"):
            list(each.reattach(second_stub, last_response_ids[each]))
    clients[0].release(second_stub)
    folder.release()
    for stream in streams.values():
        with pytest.raises(grpc.RpcError, match=r"INVALID_HANDLE\.OPERATION_(ALREADY_EXISTS|ABANDONED)"):
            list(stream)


def test_lost_creation_of_a_table_does_not_begin_later(client, stub, second_stub, folder, name):
    creation = f"create temporary table {name} as select * from dfs.`{folder.name}`"
    stream = client.execute(stub, creation)
    last_response_id = next(stream).response_id
    assert is_of_discovery(last_response_id)
    for _ in range(2):
        with pytest.raises(grpc.RpcError, match="LODGE_DISCOVERY_LOST"):
            list(client.reattach(second_stub, last_response_id))
    folder.release()
    with pytest.raises(grpc.RpcError, match=r"LODGE_DISCOVERY_LOST|INVALID_HANDLE\.OPERATION_ALREADY_EXISTS"):
        list(stream)
    client.start_statement()
    assert rows_in(client.execute(second_stub, f"show tables like '{name}'")) == []
    client.start_statement()
    list(client.execute(second_stub, creation))
    client.start_statement()
    assert rows_in(client.execute(second_stub, f"select * from {name}")) == list(range(ROWS))


@pytest.mark.usefixtures("other_table")
def test_lost_creation_of_a_lasting_view_does_not_begin_later(client, stub, second_stub, folder):
    name = f"view_{uuid.uuid4().hex}"
    stream = client.create_global_view(stub, name, f"select * from dfs.`{folder.name}`")
    last_response_id = next(stream).response_id
    with pytest.raises(grpc.RpcError, match="LODGE_DISCOVERY_LOST"):
        list(client.reattach(second_stub, last_response_id))
    client.release(second_stub)
    folder.release()
    with pytest.raises(grpc.RpcError, match=r"INVALID_HANDLE\.OPERATION_(ALREADY_EXISTS|ABANDONED)"):
        list(stream)
    client.start_statement()
    with pytest.raises(grpc.RpcError, match="TABLE_OR_VIEW_NOT_FOUND"):
        list(client.execute(stub, f"select * from global_temp.{name}"))


def execute_until_the_deadline(client, stub, text):
    """Return the id of the last response to a statement whose stream has reached its deadline.

    A statement is kept only if its client has received something before. A slow machine may need a later deadline.
    """
    for deadline_seconds in (5.0, 15.0, 45.0):
        received = []
        with pytest.raises(grpc.RpcError) as raised:
            for response in client.execute(stub, text, deadline_seconds):
                received.append(response.response_id)
        assert raised.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        if received:
            return received[-1]
        client.start_statement()
    pytest.fail("the statement has no progress")


def test_statements_continue_after_the_deadline_of_their_streams(clients, patient_lodge, folder, name):
    with stub_of(patient_lodge) as stub, ThreadPoolExecutor(2) as threads:
        last = list(threads.map(execute_until_the_deadline, clients, [stub] * 2, texts_of(folder, name)))
        streams = []
        for client, last_response_id in zip(clients, last, strict=True):
            assert is_of_discovery(last_response_id)
            client.reattach(stub, last_response_id).cancel()  # before it has received anything
            streams.append(client.reattach(stub, last_response_id))
            assert is_of_discovery(next(streams[-1]).response_id)
        folder.release()
        for stream, expected in zip(streams, RESULTS, strict=True):
            responses = list(stream)
            assert rows_in(responses) == expected
            assert responses[-1].HasField("result_complete")


def test_interrupted_statements_do_not_continue(clients, stub, folder):
    """The second statement has lost its stream."""
    streams = [each.execute(stub, f"select * from dfs.`{folder.name}`") for each in clients]
    last_response_ids = [next(stream).response_id for stream in streams]
    streams[1].cancel()
    time.sleep(1)  # the gateway keeps the statement; nothing shows this
    assert {each.operation_id for each in clients} <= set(clients[0].interrupt_all(stub).interrupted_ids)
    with pytest.raises(grpc.RpcError, match="OPERATION_CANCELED"):
        list(streams[0])
    folder.release()
    for client, last_response_id in zip(clients, last_response_ids, strict=True):
        with pytest.raises(grpc.RpcError, match="LODGE_DISCOVERY_LOST"):
            list(client.reattach(stub, last_response_id))


def test_first_seconds_of_a_discovery_send_nothing(start_lodge, spark_server, client, lodge, folder):
    gateway = start_lodge(backend=spark_server, beside=lodge)
    with stub_of(gateway) as stub:
        begun = time.monotonic()
        stream = client.execute(stub, f"select * from dfs.`{folder.name}`")
        with running(lambda: [(time.monotonic() - begun, response) for response in stream]) as received:
            time.sleep(4)  # Spark reports progress every two seconds
            folder.release()
            assert rows_in(response for _, response in received.result(SECONDS)) == list(range(ROWS))
        of_discovery = [seconds for seconds, each in received.result() if is_of_discovery(each.response_id)]
        assert all(seconds >= PROGRESS_AFTER_SECONDS for seconds in of_discovery)
    gateway.stop()
