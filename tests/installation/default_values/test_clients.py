"""Clients outside the cluster work with bundled Spark, and lose its pods."""

import json
import socket
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pyarrow as pa
import pytest
from kubernetes.client import V1Pod
from pyspark.errors import PySparkException
from pyspark.sql.connect.session import SparkSession

from tests.chaos.clients import SESSION_LOST
from tests.chaos.table_changes import rows
from tests.installation.installation import NAME, READY_SECONDS, Installation, is_ready, wait_until

SECONDS = 120.0
FILES = 16
ROWS = 500


@pytest.fixture
def client(installation: Installation) -> Iterator[SparkSession]:
    """A client outside the cluster, with TLS and the token of a service account."""
    session = installation.connect()
    yield session
    session.stop()


def executors(installation: Installation) -> list[V1Pod]:
    return [pod for pod in installation.pods("spark-executor") if is_ready(pod)]


def test_pods_are_ready_on_both_nodes(installation: Installation) -> None:
    nodes = {machine.name for machine in installation.cluster.machines}
    for component in ("gateway", "reaper", "spark-executor"):
        wait_until(
            lambda component=component: (
                {pod.spec.node_name for pod in installation.pods(component) if is_ready(pod)} == nodes
            ),
            f"{component} is ready on both nodes",
            SECONDS,
        )
    assert [pod.metadata.name for pod in installation.pods("spark")] == ["lodge-spark-0"]


def test_helm_test_succeeds_and_leaves_nothing(installation: Installation) -> None:
    assert "Succeeded" in installation.helm("test", NAME)
    objects = "pods,serviceaccounts,secrets,configmaps"
    selector = "app.kubernetes.io/component=check"
    assert installation.kubectl("get", objects, "--selector", selector, "--output=name") == ""
    assert installation.sessions() == []
    assert installation.session_locations() == frozenset()


def test_client_creates_reads_and_drops_a_temporary_table(installation: Installation, client: SparkSession) -> None:
    client.sql("create temporary table t as select id, id % 7 as remainder from range(10000)").collect()
    assert client.table("t").selectExpr("count(*)", "sum(remainder)").collect() == [
        (10000, sum(number % 7 for number in range(10000)))
    ]
    header, *lines = installation.kubectl("get", "connectsessions").splitlines()
    assert header.split()[1:7] == ["PRINCIPAL", "BACKEND", "GATEWAY", "PHASE", "TABLES", "BYTES"]
    (row,) = (line.split() for line in lines)
    assert row[1] == f"system:serviceaccount:{installation.namespace}:default"
    assert row[2] == f"sc://lodge-spark-0.{installation.namespace}.svc:15002"
    assert row[4:6] == ["Active", "1"]
    client.sql("drop table t").collect()
    assert client.sql("show temporary tables").collect() == []


def test_executors_on_both_nodes_scan_raw_files(installation: Installation, client: SparkSession) -> None:
    """The files have different columns, and each takes a task."""
    directory = installation.volume("raw-files") / "drift"
    directory.mkdir()
    for number in range(FILES):
        more = {"extra": "x"} if number % 2 else {}
        lines = [json.dumps({"id": number * ROWS + row, **more}) for row in range(ROWS)]
        (directory / f"{number}.jsonl").write_text("\n".join(lines))

    def hosts(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            time.sleep(0.2)  # so that one executor cannot take all tasks
            yield pa.RecordBatch.from_pydict({"host": [socket.gethostname()], "rows": [batch.num_rows]})

    scan = client.sql("select id, extra, filename from dfs.drift with (partition_bytes = 65536)")
    assert scan.selectExpr("count(*)", "sum(id)", "count(extra)", "count(distinct filename)").collect() == [
        (FILES * ROWS, sum(range(FILES * ROWS)), FILES * ROWS // 2, FILES)
    ]
    found = scan.mapInArrow(hosts, "host string, rows long").collect()
    assert sum(row.rows for row in found) == FILES * ROWS
    nodes = {pod.metadata.name: pod.spec.node_name for pod in executors(installation)}
    assert {nodes[row.host] for row in found} == {machine.name for machine in installation.cluster.machines}


def test_statement_survives_a_killed_executor(installation: Installation, client: SparkSession) -> None:
    """Spark runs the tasks of the killed executor again."""
    with ThreadPoolExecutor(1) as thread:
        running = thread.submit(create_slowly, client, "slow", 10)
        wait_until(lambda: is_writing(installation), "executors write", SECONDS)
        victim = executors(installation)[0]
        installation.core.delete_namespaced_pod(victim.metadata.name, installation.namespace, grace_period_seconds=0)
        running.result()
    assert client.table("slow").selectExpr("count(*)", "sum(id)").collect() == [(200, sum(range(200)))]
    wait_until(lambda: len(executors(installation)) == 2, "Spark has replaced the executor", SECONDS)


def test_client_of_a_deleted_server_gets_an_error_of_spark_and_starts_again(
    installation: Installation, client: SparkSession
) -> None:
    assert client.sql("select 1").collect() == [(1,)]  # a client without an answer knows no session that it could lose
    with ThreadPoolExecutor(1) as thread:
        running: Future[None] = thread.submit(create_slowly, client, "slow", 60)
        wait_until(lambda: is_writing(installation), "executors write", SECONDS)
        installation.core.delete_namespaced_pod("lodge-spark-0", installation.namespace, grace_period_seconds=0)
        with pytest.raises(PySparkException) as caught:
            running.result()
    # A server that is stopping can answer with any exception, so only the conditions of Lodge are known.
    condition = caught.value.getCondition() or ""
    assert not condition.startswith("LODGE_") or condition in {"LODGE_BACKEND_LOST", "LODGE_BACKEND_FAILED"}
    wait_until(
        lambda: [is_ready(pod) for pod in installation.pods("spark")] == [True], "the server is ready", READY_SECONDS
    )
    with pytest.raises(PySparkException) as caught:
        client.sql("select 1").collect()
    assert caught.value.getCondition() in SESSION_LOST
    again = installation.connect()
    again.sql("create temporary table t as select 1 as one").collect()
    assert again.table("t").collect() == [(1,)]
    again.stop()
    wait_until(lambda: not installation.sessions(), "the lost session is removed", SECONDS)
    wait_until(lambda: not installation.session_locations(), "its files are removed", SECONDS)


def create_slowly(client: SparkSession, table: str, seconds: float) -> None:
    """Create a table of 200 rows with four tasks that sleep. Two run at the same time."""
    query = rows(range(200), milliseconds=round(1000 * seconds / 100), files=4)
    client.sql(f"create temporary table {table} as {query}").collect()


def is_writing(installation: Installation) -> bool:
    """Return whether a statement has written into the workspace."""
    return any(path.suffix != "" or path.is_dir() for path in installation.workspace().glob("*/*/*"))
