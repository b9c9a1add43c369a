"""Broken connections cost nothing: between client and gateway, and between gateway and Spark.

A proxy stands in each of the two links. It resets, half-closes, delays and drops connections while statements run.
"""

import os
import threading
import time
from collections.abc import Callable

import pytest
from pyspark.errors import PySparkException
from pyspark.sql.connect.session import SparkSession

from tests.workspace.kubernetes.tcp_proxy import TcpProxy

pytestmark = pytest.mark.slow

ROWS = 30
SLOW = f"select id, java_method('java.lang.Thread', 'sleep', 200 + id * 0) s from range(0, {ROWS}, 1, 1)"
FEWER = 8
LESS_SLOW = SLOW.replace(f"0, {ROWS},", f"0, {FEWER},").replace("200", "100")
RESETS = 6
LINKS = ("client", "backend")
MEGABYTE = 1024 * 1024


class Links:
    """A gateway between two proxies, and a client behind them.

    Attributes:
        client: The proxy between client and gateway.
        backend: The proxy between gateway and Spark.
        gateway: The gateway.
        spark: The session of the client.
    """

    def __init__(self, client: TcpProxy, backend: TcpProxy, gateway: object, spark: SparkSession) -> None:
        self.client, self.backend, self.gateway, self.spark = client, backend, gateway, spark
        self._former_log = ""

    def begin_test(self):
        self._former_log = self.gateway.log()

    def end_test(self):
        self.client.delay_seconds = self.backend.delay_seconds = 0.0
        for table in self.spark.sql("show temporary tables").collect():
            self.spark.sql(f"drop table {table.tableName}").collect()
        assert "Traceback" not in self.log()

    def log(self):
        """Return what the gateway has logged since the test began."""
        return self.gateway.log().removeprefix(self._former_log)

    def directories(self):
        return [table for location in self.gateway.locations() for table in location.iterdir()]

    def rows(self, table):
        return sorted(row.id for row in self.spark.sql(f"select id from {table}").collect())

    def while_it_runs(self, running: Callable[[], bool], act: Callable[[], object]) -> threading.Thread:
        """Act in a thread as soon as a statement runs."""

        def wait_and_act():
            deadline = time.monotonic() + 60
            while not running():
                assert time.monotonic() < deadline, "the statement did not begin"
                time.sleep(0.05)
            act()

        acting = threading.Thread(target=wait_and_act)
        acting.start()
        return acting


@pytest.fixture(scope="module")
def shared_links(start_lodge, spark_server):
    with TcpProxy(int(spark_server.rpartition(":")[2])) as backend:
        gateway = start_lodge("--backend-keepalive=11s", backend=f"sc://127.0.0.1:{backend.port}")
        with TcpProxy(int(gateway.target.rpartition(":")[2])) as client:
            spark = SparkSession.builder.remote(f"sc://127.0.0.1:{client.port}").create()
            yield Links(client, backend, gateway, spark)
            spark.stop()
        gateway.stop()


@pytest.fixture
def links(shared_links):
    shared_links.begin_test()
    yield shared_links
    shared_links.end_test()


def break_link(links, link, fault):
    proxy = getattr(links, link)
    if fault == "delay":
        proxy.delay_seconds = 0.1
    else:
        getattr(proxy, fault)()


def test_statement_runs_once_although_its_connection_is_reset(links):
    links.spark.sql("create temporary table before as select 1 a").collect()
    done = []

    def reset_often():
        for _ in range(RESETS):
            time.sleep(0.5)  # spreads the resets over the write
            links.backend.reset()
            done.append(time.monotonic())

    resetting = links.while_it_runs(lambda: len(links.directories()) == 2, reset_often)
    answer = links.spark.sql(f"create temporary table t as {SLOW}").collect()
    resetting.join()
    assert len(done) == RESETS
    assert [tuple(row) for row in answer] == [("0_0", ROWS)]
    assert links.rows("t") == list(range(ROWS))
    assert len(links.directories()) == 2, "the rows were written once"
    log = links.log()
    assert log.count("backend_connection_reset") >= RESETS // 2
    assert "statement_undone" not in log


@pytest.mark.parametrize("link", LINKS)
def test_creation_and_insertion_survive_each_fault(links, link):
    tables = 0
    for fault in ("reset", "cut", "half_close", "delay"):
        name = f"t_{fault}"
        for expected, statement in (
            (1, f"create temporary table {name} as {LESS_SLOW}"),
            (2, f"insert into {name} {LESS_SLOW}"),
        ):
            tables += 1
            written = tables
            breaking = links.while_it_runs(
                lambda written=written: len(links.directories()) == written,
                lambda fault=fault: break_link(links, link, fault),
            )
            links.spark.sql(statement).collect()
            breaking.join()
            assert links.rows(name) == sorted(list(range(FEWER)) * expected), (fault, statement)
            assert len(links.directories()) == tables, "the rows were written once"
    assert "statement_undone" not in links.log()


def test_creation_survives_a_link_that_drops_everything(links):
    """Neither end of the connection is told. Only missing answers to pings tell that it is broken."""
    dropping = links.while_it_runs(lambda: len(links.directories()) == 1, links.backend.drop)
    answer = links.spark.sql(f"create temporary table t as {SLOW}").collect()
    dropping.join()
    assert [tuple(row) for row in answer] == [("0_0", ROWS)]
    assert links.rows("t") == list(range(ROWS))
    assert len(links.directories()) == 1, "the rows were written once"
    log = links.log()
    assert "backend_connection_reset" in log
    assert "statement_undone" not in log


@pytest.mark.parametrize("link", LINKS)
def test_results_are_complete_although_their_stream_is_reset(links, link):
    proxy = getattr(links, link)
    for begin in (0.1, 5):
        proxy.reset_after(int(begin * MEGABYTE))
        table = links.spark.sql("select id, uuid() u from range(0, 300000, 1, 1)").toArrow()
        assert proxy.has_reset
        assert table.nbytes > 10 * MEGABYTE
        assert table.column("id").to_pylist() == list(range(300_000)), "each row arrives once, in order"


@pytest.mark.parametrize("link", LINKS)
def test_upload_survives_a_reset(links, link):
    proxy = getattr(links, link)
    links.spark.sql("select 1").collect()
    proxy.reset_after(3 * MEGABYTE)
    blob = os.urandom(8 * MEGABYTE)
    cached = links.spark.client.cache_artifact(blob)
    assert proxy.has_reset
    assert links.spark.client._artifact_manager.is_cached_artifact(cached)


@pytest.mark.parametrize("link", LINKS)
def test_interrupt_survives_a_lost_answer(links, link):
    spark, ended = links.spark, []

    def run():
        try:
            spark.sql(SLOW.replace(f"{ROWS}, 1, 1", "3000, 1, 1")).collect()
        except PySparkException as error:
            ended.append(error)

    running = threading.Thread(target=run)
    running.start()
    spark.addTag("other")  # opens the session of this thread
    deadline = time.monotonic() + 60
    proxy = getattr(links, link)
    while not ended and time.monotonic() < deadline:
        proxy.lose_answer()
        spark.interruptAll()
        running.join(1.0)
    running.join(60)
    (error,) = ended
    assert "OPERATION_CANCELED" in str(error)
