"""Scans that a client makes up itself, and those that its gateway plans, at a real Spark."""

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql.datasource import DataSource

from engine.scan_signature import KEY_BYTES, KEY_FILE

pytestmark = pytest.mark.slow


@pytest.fixture
def options(tmp_path):
    """Options with which the engine would read a directory that is in no workspace."""
    (tmp_path / "a.csv").write_text("hidden\n")
    return {"workspace": "w", "root": str(tmp_path), "path": "."}


def refused(action):
    with pytest.raises(AnalysisException) as raised:
        action()
    assert raised.value.getCondition() == "LODGE_SCAN_NOT_SIGNED", raised.value
    assert "dfs.`a.csv`" in str(raised.value)


def test_engine_refuses_scans_that_the_gateway_has_not_planned(lodge, restored_spark, options):
    spark = restored_spark
    (lodge.files / "a.csv").write_text("1\n")
    texts = ", ".join(f"{name} '{value}'" for name, value in options.items())
    spark.sql("select * from dfs.`a.csv`").collect()  # from now on, the session has a key
    spark.conf.set("spark.sql.sources.default", "lodge")
    refused(lambda: spark.read.options(**options).load().collect())
    refused(lambda: spark.read.options(**options, signature="0" * 97).load().collect())
    refused(lambda: spark.read.schema("word string").options(**options).load().collect())
    spark.conf.unset("spark.sql.sources.default")
    spark.sql("set src = lodge")
    refused(lambda: spark.sql(f"create temporary view v using ${{src}} options ({texts})"))


def test_new_session_cannot_scan_before_it_has_a_key(lodge, connect, options):
    spark = connect(lodge)
    spark.conf.set("spark.sql.sources.default", "lodge")
    refused(lambda: spark.read.options(**options).load().collect())


def test_client_cannot_add_a_key(lodge, connect, tmp_path):
    spark = connect(lodge)
    key = tmp_path / f"{KEY_FILE}{'0' * 32}"
    key.write_bytes(bytes(KEY_BYTES))
    for add in (
        lambda: spark.addArtifacts(str(key), file=True),
        lambda: spark.sql(f"add file '{key}'").collect(),
        lambda: spark.sql(f"add file {key.name}").collect(),
    ):
        with pytest.raises(Exception, match="LODGE_PATH_REFUSED"):
            add()


class Impostor(DataSource):
    """A data source of the client with the name of Lodge's."""

    @classmethod
    def name(cls):
        return "Lodge"

    def schema(self):
        return "word string"


def test_client_cannot_replace_the_data_source(connect, lodge):
    with pytest.raises(AnalysisException) as raised:
        connect(lodge).dataSource.register(Impostor)
    assert raised.value.getCondition() == "DATA_SOURCE_ALREADY_EXISTS"


def test_views_stay_readable_in_clones_and_at_other_gateways(start_lodge, spark_server, connect, wait_until):
    first = start_lodge("--lease-duration", "6s", backend=spark_server)
    second = start_lodge("--lease-duration", "6s", backend=spark_server, beside=first)
    (first.files / "a.csv").write_text("1\n2\n")
    spark = connect(first)
    spark.sql("create temporary view by_text using lodge options (path 'dfs.`a.csv`')")
    spark.table("dfs.`a.csv`").createOrReplaceTempView("by_frame")
    elsewhere = connect(second, session_id=spark.session_id)
    for session in (spark, spark.cloneSession(), elsewhere):
        for name in ("by_text", "by_frame", "dfs.`a.csv`"):
            assert session.sql(f"select * from {name}").count() == 2, name
