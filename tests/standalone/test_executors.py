"""Scans on two executors: where tasks run, and what the loss of a worker in the middle of a scan changes."""

import re
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.parquet
import pytest

from engine.file_scan.file_scan import FileScan
from engine.file_scan.partition_reading import read_partition
from engine.file_scan.partitions import plan_partitions
from engine.file_scan.schema_discovery import discover_schema
from engine.scan_source import ScanSource

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

FILES = 4
ROWS = 100_000
"""The rows of a file: several batches, so that a task has read a part when it waits at the gate."""

SLOW_OBJECTS = 150_000
"""The objects of a file that is large enough for a task of its own in discovery."""

START_SECONDS = 120
TASK = re.compile(r"Running task \d+\.\d+ in stage")
RETRY = re.compile(r"Running task \d+\.[1-9]\d* in stage")


@pytest.fixture(scope="module")
def drifting(lodge):
    """Write a directory of JSON and Parquet files, in which the types and columns of a file differ from the others."""
    folder = lodge.files / "drifting"
    folder.mkdir()
    for number in range(FILES):
        first = number * ROWS
        if number % 2:
            pa.parquet.write_table(
                pa.table({"id": range(first, first + ROWS), "b": ["x"] * ROWS}), folder / f"{number}.parquet"
            )
        else:
            lines = (
                f'{{"id": {row}{".5" if number else ""}, "a{number}": "t{row}"}}\n'
                for row in range(first, first + ROWS)
            )
            (folder / f"{number}.json").write_text("".join(lines))
    return folder


@pytest.fixture
def scan(spark, drifting):
    return spark.sql(f"select * from dfs.`{drifting.name}` with (partition_bytes = '1 MiB')")


@pytest.fixture(scope="module")
def alone(lodge, drifting):
    """The rows of the scan by the engine alone, in this process."""
    scan = FileScan.from_options(ScanSource("dfs", str(lodge.files), drifting.name).to_options(reader={}))
    schema = discover_schema(scan)
    batches = [
        batch for files in plan_partitions(scan) for batch in read_partition(scan, files, schema, is_declared=False)
    ]
    return in_order(pa.Table.from_batches(batches, schema.to_arrow()))


def in_order(table):
    return table.sort_by("id").to_pydict()


@contextmanager
def running(query):
    """Run a query in the background, and yield its future result."""
    with ThreadPoolExecutor(1) as pool:
        yield pool.submit(query)


def workers_of(attempts, cluster):
    return {worker for one in attempts for worker in cluster.workers if worker.runs(one.directory)}


@pytest.fixture
def scan_in_the_middle(scan, gate, cluster, wait_until):
    """A scan with a waiting task on each worker, and its future result."""
    with running(gate.guard(scan).toArrow) as result:
        try:
            wait_until(
                lambda: len(workers_of(gate.arrivals(), cluster)) == len(cluster.workers) or result.done(),
                "a task waits on each worker",
                START_SECONDS,
            )
            yield result
        finally:
            gate.open()


def test_killed_worker_costs_a_retry_and_changes_no_row(scan_in_the_middle, gate, cluster, alone):
    lost, other = cluster.workers
    (interrupted,) = [one for one in gate.arrivals() if lost.runs(one.directory)]
    lost.kill()
    try:
        gate.open()
        assert in_order(scan_in_the_middle.result()) == alone
        (again,) = [one for one in gate.arrivals() if one.partition == interrupted.partition and one.attempt == 1]
        assert other.runs(again.directory)
        assert len({one.partition for one in gate.arrivals()}) == len(gate.arrivals()) - 1 > FILES
    finally:
        lost.start()


@pytest.fixture
def both_executors(spark, cluster, wait_until):
    """Wait until both workers have an executor."""
    wait_until(lambda: all(worker.has_executor() for worker in cluster.workers), "two executors run", START_SECONDS)


@pytest.mark.usefixtures("both_executors")
def test_killed_worker_in_the_middle_of_discovery_changes_no_schema(lodge, spark, cluster, wait_until):
    """Objects on several lines are slow to examine, so each task of discovery runs for seconds."""
    folder = lodge.files / "slow"
    folder.mkdir()
    for number in range(2):
        objects = (f'{{"id": {row},\n"c{number}": "{"x" * 40}"}}\n' for row in range(SLOW_OBJECTS))
        (folder / f"{number}.json").write_text("".join(objects))
    lost, other = cluster.workers
    begun, retried = len(TASK.findall(lost.executor_logs())), len(RETRY.findall(other.executor_logs()))
    with running(lambda: spark.sql(f"select * from dfs.`{folder.name}`").columns) as result:
        wait_until(
            lambda: len(TASK.findall(lost.executor_logs())) > begun or result.done(), "discovery runs", START_SECONDS
        )
        lost.kill()
        try:
            assert result.result() == ["id", "c0", "c1"]
            assert len(RETRY.findall(other.executor_logs())) > retried
        finally:
            lost.start()


def test_paused_worker_costs_a_retry_and_changes_no_row(scan_in_the_middle, gate, cluster, alone):
    other, silent = cluster.workers
    (interrupted,) = [one for one in gate.arrivals() if silent.runs(one.directory)]
    with silent.paused():
        gate.open()
        assert in_order(scan_in_the_middle.result()) == alone
        (again,) = [one for one in gate.arrivals() if one.partition == interrupted.partition and one.attempt == 1]
        assert other.runs(again.directory)
