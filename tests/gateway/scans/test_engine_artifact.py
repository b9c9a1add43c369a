"""Scans at Spark Connect servers without Lodge. Numbers in comments are the guarantees of the module."""

import json
import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import Row

from tests.cluster.ports import free_port
from tests.conftest import REPOSITORY

pytestmark = pytest.mark.slow

NEEDED = ("pyspark", "pyarrow", "numpy")


def make_files(lodge):
    (lodge.files / "people.csv").write_text("name,age\nAda,36\nBob,\n")
    (lodge.files / "events").mkdir(exist_ok=True)
    (lodge.files / "events" / "1.json").write_text('{"id": 1, "tags": ["a"]}\n')
    (lodge.files / "events" / "2.json").write_text('{"id": 2.5, "place": {"x": 1}}\n')


def sent(lodge, spark=None):
    """Return the log events of the deliveries, of one session or of all."""
    events = [json.loads(line) for line in lodge.log().splitlines() if '"engine_sent"' in line]
    return [each for each in events if spark is None or each["session"] == spark.session_id]


def check_scans(spark):
    events = spark.sql("select * from dfs.`events` order by id")
    assert events.schema.simpleString().startswith("struct<id:double,tags:array<string>,place:struct<x:bigint>")
    assert [row.id for row in events.collect()] == [1.0, 2.5]
    people = spark.sql("select name, age from dfs.`people.csv` with (header = true, schema = 'name string, age int')")
    assert people.collect() == [Row(name="Ada", age=36), Row(name="Bob", age=None)]
    spark.sql("create temporary table t as select id from dfs.`events`")
    assert spark.sql("select count(*) from t").collect() == [(2,)]


@dataclass
class BareSpark:
    """A server without Lodge, whose Python processes have the packages that a test chooses.

    Each session starts its own Python processes, so a choice holds for sessions that begin later.
    """

    address: str
    directory: Path
    python_environment: Callable[..., Path]

    def choose(self, of_driver: Sequence[str], of_executors: Sequence[str] | None = None) -> None:
        """Choose the packages of the driver's and the executors' Python."""
        driver = self.python_environment(of_driver)
        workers = driver if of_executors is None else self.python_environment(of_executors)
        script = self.directory / "python"
        new = script.with_suffix(".new")
        new.write_text(
            f'#!/bin/sh\ncase " $* " in *" pyspark.worker "*) exec {workers} "$@" ;; esac\nexec {driver} "$@"\n'
        )
        new.chmod(0o755)
        new.replace(script)


@pytest.fixture(scope="module")
def running_bare_spark(start_spark, python_environment, tmp_path_factory):
    directory = tmp_path_factory.mktemp("bare")
    spark = BareSpark("", directory, python_environment)
    spark.choose(NEEDED)
    python = python_environment(NEEDED)
    environment = {"PYSPARK_PYTHON": str(directory / "python")}
    spark.address = start_spark(directory, python=python, environment=environment).address
    return spark


@pytest.fixture
def bare_spark(running_bare_spark):
    """A server whose Python has nothing but PySpark and what the engine needs."""
    running_bare_spark.choose(NEEDED)
    return running_bare_spark


@pytest.fixture(scope="module")
def running_bare_lodge(start_lodge, running_bare_spark):
    gateway = start_lodge(backend=running_bare_spark.address)
    make_files(gateway)
    yield gateway
    gateway.stop()


@pytest.fixture
def bare_lodge(running_bare_lodge, bare_spark):
    """A gateway in front of the bare server."""
    return running_bare_lodge


def test_scans_work_at_a_backend_without_lodge(connect, bare_lodge):
    """The first scan is that of a view. A clone of the session can scan too."""
    spark = connect(bare_lodge)
    spark.table("dfs.`events`").select("id").createOrReplaceTempView("v")
    assert spark.sql("select count(*) from v").collect() == [(2,)]
    clone = spark.cloneSession()
    try:
        assert clone.table("dfs.`events`").count() == 2
    finally:
        clone.stop()
    check_scans(spark)
    assert len(sent(bare_lodge, spark)) == 1  # 1


def test_sessions_get_the_engine_for_their_first_scans_only(connect, bare_lodge, bare_spark, start_lodge):
    """Several first scans at the same time bring it once. Another gateway finds it."""
    first, second = connect(bare_lodge), connect(bare_lodge)
    assert first.sql("select 1").collect() == [(1,)]
    first.sql("create temporary table t as select 1 as a")
    with ThreadPoolExecutor(4) as pool:
        counts = list(pool.map(lambda _: second.table("dfs.`events`").count(), range(4)))
    assert counts == [2] * 4
    assert not sent(bare_lodge, first)
    assert first.table("dfs.`events`").schema.fieldNames()[:2] == ["id", "tags"]
    assert len(sent(bare_lodge, first)) == len(sent(bare_lodge, second)) == 1  # 1
    other = start_lodge(backend=bare_spark.address, beside=bare_lodge)
    same = connect(other, session_id=second.session_id)
    assert same.table("dfs.`events`").count() == 2
    assert not sent(other, same)  # 2


def test_backend_with_the_engine_gets_nothing(lodge, shared_spark):
    assert shared_spark.table("dfs.`amount.csv`").count() == 4
    assert not sent(lodge, shared_spark)


@pytest.mark.timeout(1200)  # the first time, pip installs Spark
def test_servers_that_follow_each_other_at_an_address(connect, start_spark, start_lodge, python_environment, tmp_path):
    """The first server has another version of Spark. Its successor has another version of the engine, and is refused.

    A server looks for data sources once, so the test needs servers of its own.
    """
    before, after, installed = (tmp_path / name for name in ("before", "after", "installed"))
    for package in ("engine", "pyspark_lodge"):
        shutil.copytree(REPOSITORY / package, installed / package, ignore=shutil.ignore_patterns("__pycache__"))
    with (installed / "engine" / "file_scan" / "file_scan.py").open("a") as module:
        module.write("\n# another version\n")
    before.mkdir()
    after.mkdir()
    address = {"spark.connect.grpc.binding.port": str(free_port())}
    other = python_environment(["pyspark==4.2.0", "pyarrow==26.0.1", "numpy==2.4.6"])
    server = start_spark(before, more=address, python=other)
    gateway = start_lodge(backend=server.address)
    make_files(gateway)
    spark = connect(gateway)
    check_scans(spark)
    assert len(sent(gateway, spark)) == 1
    server.process.kill()
    server.process.wait()
    environment = {"PYTHONPATH": str(installed)}
    start_spark(after, more=address, python=python_environment(NEEDED), environment=environment)
    spark = connect(gateway)
    for _ in range(2):
        with pytest.raises(AnalysisException, match="Install the same version, or remove Lodge") as raised:  # 1, 3
            spark.table("dfs.`events`").count()
        assert raised.value.getCondition() == "LODGE_OTHER_ENGINE"
    assert spark.sql("select 1").collect() == [(1,)]


def test_backend_without_pyarrow_is_named(connect, bare_lodge, bare_spark):
    bare_spark.choose(["pyspark"])
    spark = connect(bare_lodge)
    for _ in range(2):
        with pytest.raises(AnalysisException, match=r"no package \[pyarrow\]\. .* Install what is missing") as raised:
            spark.sql("select * from dfs.`people.csv`").collect()
        assert raised.value.getCondition() == "LODGE_BACKEND_PYTHON"
    assert spark.sql("select 1").collect() == [(1,)]


@pytest.mark.parametrize(("missing", "present"), [("pyarrow", ["pyspark"]), ("numpy", ["pyspark", "pyarrow"])])
def test_executors_without_a_package_are_named(connect, bare_lodge, bare_spark, missing, present):
    bare_spark.choose(NEEDED, of_executors=present)
    spark = connect(bare_lodge)
    with pytest.raises(AnalysisException, match=rf"its executors has no package \[{missing}\]\.") as raised:
        spark.sql("select * from dfs.`people.csv`").collect()
    assert raised.value.getCondition() == "LODGE_BACKEND_PYTHON"
