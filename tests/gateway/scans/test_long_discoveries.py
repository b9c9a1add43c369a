"""Discovery whose progress reaches the client."""

import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import grpc
import pytest
from pyspark.errors import PySparkException
from pyspark.sql.connect.proto import base_pb2, base_pb2_grpc
from pyspark.sql.connect.session import SparkSession

from gateway.scans.discovery_progress import is_of_gateway
from tests.conftest import wait_until
from tests.workspace.kubernetes.tcp_proxy import TcpProxy

pytestmark = pytest.mark.slow

SECONDS = 60.0
ROWS = 60_000
WITH_EARLY_PROGRESS = """
import sys
from gateway import server
from lodge.cli import main
server.PROGRESS_AFTER_SECONDS = 0.0
sys.exit(main())
"""
WITH_LATE_PROGRESS = WITH_EARLY_PROGRESS.replace("0.0", "600.0")


@pytest.fixture(scope="module")
def start_early(start_lodge, spark_server):
    """Start gateways that send the progress of each discovery."""

    def start(*options, **others):
        return start_lodge(*options, backend=spark_server, program=("-c", WITH_EARLY_PROGRESS), **others)

    return start


@pytest.fixture(scope="module")
def lodge(start_early):
    return start_early()


@pytest.fixture
def folder(lodge, tmp_path_factory):
    """A directory with ``ROWS`` rows in three files."""
    path = lodge.files / tmp_path_factory.mktemp("folder").name
    path.mkdir()
    for part in range(3):
        rows = range(part, ROWS, 3)
        (path / f"{part}.json").write_text("".join(f'{{"a": {number}}}\n' for number in rows))
    return path


class Cores:
    """The cores of the backend, which other work occupies until they are released."""

    def __init__(self, directory):
        self._released = directory / "released"

    def release(self):
        self._released.touch()


@pytest.fixture
def cores(spark_server, tmp_path):
    """Occupy all cores of the backend, so that a discovery takes long."""
    session = SparkSession.builder.remote(f"{spark_server}/").create()
    released = tmp_path / "released"

    def occupy(batches):
        for batch in batches:
            (tmp_path / str(batch["id"][0])).touch()
            while not released.exists():
                time.sleep(0.05)
            yield batch

    with ThreadPoolExecutor(1) as thread:
        running = thread.submit(session.range(0, 2, 1, 2).mapInArrow(occupy, "id long").collect)
        wait_until(lambda: len(list(tmp_path.iterdir())) == 2 or running.done(), "both cores are busy", SECONDS)
        yield Cores(tmp_path)
        released.touch()
        running.result(SECONDS)
    session.stop()


class Progress:
    """A progress handler that records what it is called with."""

    def __init__(self):
        self.stages = []

    def __call__(self, stages, inflight_tasks, operation_id, done):
        self.stages += [stage.stage_id for stage in stages or ()]


@contextmanager
def running(function):
    """Run a function in a thread, and yield its future."""
    with ThreadPoolExecutor(1) as thread:
        yield thread.submit(function)


def rows_of(spark, folder):
    return sorted(row.a for row in spark.table(f"dfs.`{folder.name}`").collect())


def test_progress_of_discovery_reaches_the_client_before_that_of_the_statement(spark, folder, cores):
    progress = Progress()
    spark.registerProgressHandler(progress)
    with running(lambda: rows_of(spark, folder)) as rows:
        wait_until(lambda: progress.stages or rows.done(), "the handler was called", SECONDS)
        of_discovery = set(progress.stages)
        cores.release()
        assert rows.result(SECONDS) == list(range(ROWS))
    assert len(of_discovery) == 1


def test_interrupt_ends_a_discovery_with_progress(spark, folder, cores):
    progress = Progress()
    spark.registerProgressHandler(progress)
    with running(lambda: rows_of(spark, folder)) as rows:
        wait_until(lambda: progress.stages or rows.done(), "the handler was called", SECONDS)
        assert len(spark.interruptAll()) == 1
        with pytest.raises(PySparkException, match="OPERATION_CANCELED"):
            rows.result(SECONDS)


@pytest.mark.parametrize("way", ["cut", "reset"])
def test_client_that_lost_its_connection_reattaches_to_a_discovery(lodge, connect, folder, cores, way):
    progress = Progress()
    with TcpProxy(int(lodge.target.rpartition(":")[2])) as proxy:
        spark = SparkSession.builder.remote(f"sc://127.0.0.1:{proxy.port}/").create()
        spark.registerProgressHandler(progress)
        with running(lambda: rows_of(spark, folder)) as rows:
            wait_until(lambda: progress.stages or rows.done(), "the handler was called", SECONDS)
            getattr(proxy, way)()
            connections = proxy.connections
            wait_until(lambda: proxy.connections > connections, "the client has connected again", SECONDS)
            time.sleep(0.5)
            cores.release()
            assert rows.result(SECONDS) == list(range(ROWS))
        spark.stop()


def test_client_can_lose_its_connection_until_the_discovery_has_ended(lodge, folder, cores):
    progress = Progress()
    with TcpProxy(int(lodge.target.rpartition(":")[2])) as proxy:
        spark = SparkSession.builder.remote(f"sc://127.0.0.1:{proxy.port}/").create()
        spark.registerProgressHandler(progress)
        with running(lambda: rows_of(spark, folder)) as rows:
            wait_until(lambda: progress.stages or rows.done(), "the handler was called", SECONDS)
            cores.release()
            for _ in range(20):
                proxy.reset()
                time.sleep(0.3)
            assert rows.result(SECONDS) == list(range(ROWS))
        spark.stop()


def test_discovery_finishes_before_its_gateway_stops(start_early, folder, lodge, cores):
    gateway = start_early("--drain-timeout", "60s", beside=lodge)
    progress, targets = Progress(), [gateway]
    with TcpProxy(lambda: int(targets[-1].target.rpartition(":")[2])) as proxy:
        spark = SparkSession.builder.remote(f"sc://127.0.0.1:{proxy.port}/").create()
        spark.registerProgressHandler(progress)
        with running(lambda: rows_of(spark, folder)) as rows:
            wait_until(lambda: progress.stages or rows.done(), "the handler was called", SECONDS)
            targets.append(lodge)
            gateway.process.terminate()
            wait_until(lambda: "gateway_draining" in gateway.log(), "the gateway stops", SECONDS)
            time.sleep(1)
            cores.release()
            assert rows.result(SECONDS) == list(range(ROWS))
        assert gateway.stop() == 0
        spark.stop()


class Client:
    """A client of its own session that sends messages without the retries of PySpark."""

    def __init__(self, gateway, channel):
        self.stub = base_pb2_grpc.SparkConnectServiceStub(channel)
        self._identity = {"session_id": str(uuid.uuid4()), "operation_id": str(uuid.uuid4())}
        self._identity["user_context"] = base_pb2.UserContext(user_id="ann")

    def execute(self, query, **fields):
        request = base_pb2.ExecutePlanRequest(**self._identity, **fields)
        request.request_options.add().reattach_options.reattachable = True
        request.plan.command.sql_command.input.sql.query = query
        return self.stub.ExecutePlan(request)

    def reattach(self, last_response_id):
        return self.stub.ReattachExecute(
            base_pb2.ReattachExecuteRequest(**self._identity, last_response_id=last_response_id), timeout=SECONDS
        )

    def release(self, response_id=None):
        request = base_pb2.ReleaseExecuteRequest(**self._identity)
        if response_id is None:
            request.release_all.SetInParent()
        else:
            request.release_until.response_id = response_id
        return self.stub.ReleaseExecute(request, timeout=SECONDS)

    def is_own(self, response):
        return (response.session_id, response.operation_id) == (
            self._identity["session_id"],
            self._identity["operation_id"],
        )


@pytest.fixture
def client(lodge):
    with grpc.insecure_channel(lodge.target) as channel:
        yield Client(lodge, channel)


def kinds(responses):
    return [each.WhichOneof("response_type") for each in responses if not each.HasField("execution_progress")]


RESULT = ["sql_command_result", "result_complete"]


def test_discovery_is_one_operation_with_the_statement(client, folder, cores):
    lost = client.execute(f"select * from dfs.`{folder.name}`")
    first = next(lost)
    assert first.HasField("execution_progress")
    assert is_of_gateway(first.response_id)
    assert client.is_own(first)
    client.release(first.response_id)
    lost.cancel()
    cores.release()
    responses = list(client.reattach(first.response_id))
    assert kinds(responses) == RESULT
    assert all(client.is_own(each) for each in responses)
    assert {each.server_side_session_id for each in responses} == {first.server_side_session_id}
    again = list(client.reattach(first.response_id))  # the backend knows the operation now
    assert kinds(again) == RESULT
    assert kinds(client.reattach(again[-2].response_id)) == RESULT[1:]
    client.release()


def test_second_stream_of_a_client_replaces_the_first(client, folder, cores):
    first = client.execute(f"select * from dfs.`{folder.name}`")
    last_response_id = next(first).response_id
    second = client.reattach(last_response_id)
    with running(lambda: list(second)) as responses:
        time.sleep(1)
        cores.release()
        assert kinds(responses.result(SECONDS)) == RESULT
    assert kinds(first) == []  # it ends without a last response


def test_release_ends_a_discovery(client, folder, cores):
    stream = client.execute(f"select * from dfs.`{folder.name}`")
    last_response_id = next(stream).response_id
    stream.cancel()
    client.release()
    with pytest.raises(grpc.RpcError, match=r"INVALID_HANDLE\.OPERATION_"):
        list(client.reattach(last_response_id))


def test_discovery_of_a_new_table_is_one_operation_with_the_statement(client, folder, cores):
    lost = client.execute(f"create temporary table t as select * from dfs.`{folder.name}`")
    first = next(lost)
    assert is_of_gateway(first.response_id)
    lost.cancel()
    cores.release()
    assert kinds(client.reattach(first.response_id)) == RESULT
    client._identity["operation_id"] = str(uuid.uuid4())
    assert kinds(client.execute("select * from t")) == RESULT


def test_discovery_ends_if_no_stream_follows_it_for_the_detached_timeout(start_early, lodge, folder, cores):
    gateway = start_early("--detached-timeout", "2s", beside=lodge)
    with grpc.insecure_channel(gateway.target) as channel:
        client = Client(gateway, channel)
        stream = client.execute(f"select * from dfs.`{folder.name}`")
        last_response_id = next(stream).response_id
        stream.cancel()
        time.sleep(4)
        with pytest.raises(grpc.RpcError, match=r"INVALID_HANDLE\.OPERATION_NOT_FOUND"):
            list(client.reattach(last_response_id))
    gateway.stop()


def test_short_discovery_sends_nothing(start_lodge, spark_server, lodge, folder, cores):
    gateway = start_lodge(backend=spark_server, beside=lodge, program=("-c", WITH_LATE_PROGRESS))
    with grpc.insecure_channel(gateway.target) as channel:
        stream = Client(gateway, channel).execute(f"select * from dfs.`{folder.name}`")
        with running(lambda: list(stream)) as responses:
            time.sleep(4)  # Spark reports progress every two seconds
            cores.release()
            assert kinds(responses.result(SECONDS)) == RESULT
            assert not any(is_of_gateway(each.response_id) for each in responses.result())
    gateway.stop()
