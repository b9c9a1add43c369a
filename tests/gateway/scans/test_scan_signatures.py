"""Scans that a client makes up itself, and those that its gateway plans, at a real Spark."""

import zipfile
import zlib

import grpc
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql.connect.proto import base_pb2
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


def send_archive(spark, name, data):
    request = base_pb2.AddArtifactsRequest(session_id=spark.client._session_id)
    artifact = request.batch.artifacts.add(name=name)
    artifact.data.data, artifact.data.crc = data, zlib.crc32(data)
    return spark.client._stub.AddArtifacts(iter([request]), metadata=spark.client._builder.metadata())


def test_archive_replaces_no_other_directory_and_is_no_key(lodge, connect, tmp_path):
    """Spark deletes the directory into which it unpacks an archive, wherever it is."""
    spark = connect(lodge)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").touch()
    archive = tmp_path / "a.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("inner", "")
    for directory in (f"{'../' * 30}{tmp_path}/other", ".", f"{KEY_FILE.replace('-', '%2D')}{'0' * 32}"):
        with pytest.raises(grpc.RpcError, match="LODGE_PATH_REFUSED"):
            send_archive(spark, f"archives/a.zip#{directory}", archive.read_bytes())
        with pytest.raises(Exception, match="LODGE_PATH_REFUSED"):
            spark.sql(f"add archive {archive}#{directory}").collect()
    assert (tmp_path / "other" / "file").exists()
    (sent,) = send_archive(spark, "archives/a.zip#own/directory", archive.read_bytes()).artifacts
    assert sent.is_crc_successful


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
