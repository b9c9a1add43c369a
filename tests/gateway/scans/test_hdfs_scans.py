"""Scans of raw files in HDFS, through a gateway and a Spark server that have its client."""

import signal

import pytest
from pyspark.errors import AnalysisException

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def directory(hdfs_client, hdfs_server):
    """A directory with a subdirectory that only the superuser may list."""
    with hdfs_server.directory() as directory:
        hdfs_server.filesystem(umask="077").create_dir(f"{directory}/private")
        yield directory


@pytest.fixture(scope="module")
def put(hdfs_server, directory):
    storage = hdfs_server.filesystem()

    def write(path, content):
        with storage.open_output_stream(f"{directory}/{path}") as stream:
            stream.write(content)

    return write


@pytest.fixture(scope="module")
def start_gateway(start_lodge, start_spark, hdfs_server, directory, tmp_path_factory):
    """Start gateways with the workspace ``lake``. Gateways and executors have the client in their environment."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("LIBHDFS_OPTS")  # the engine sets what it needs
        server = start_spark(tmp_path_factory.mktemp("spark"))
        yield lambda: start_lodge("--workspace", f"lake={hdfs_server.uri(directory)}", backend=server.address)


@pytest.fixture(scope="module")
def lodge(start_gateway):
    return start_gateway()


def test_drifting_directory_is_queried_and_stored(spark, put):
    put("events/2025/1.json", b'{"a": 1}\n')
    put("events/2026/1.json", b'{"a": 2.5, "b": "x"}\n')
    rows = spark.sql("select dir0, a, b from lake.`events` order by a").collect()
    assert rows == [("2025", 1.0, None), ("2026", 2.5, "x")]
    spark.sql("create temporary table t as select sum(a) s from lake.`events/*/1.json`").collect()
    assert spark.table("t").collect() == [(3.5,)]


@pytest.mark.parametrize(
    ("path", "condition"),
    [
        ("../secret/a.json", "LODGE_PATH_REFUSED"),
        ("events//2025", "LODGE_PATH_REFUSED"),
        ("events/%2e%2e/x", "LODGE_FILE_NOT_FOUND"),
        ("nothing", "LODGE_FILE_NOT_FOUND"),
        ("private", "LODGE_UNREADABLE_FILE"),
    ],
)
def test_bad_paths_are_clear_errors(spark, put, path, condition):
    put("good/1.json", b'{"a": 1}\n')
    with pytest.raises(AnalysisException, match=r"workspace .?.?lake") as raised:
        spark.sql(f"select * from lake.`{path}`").collect()
    assert raised.value.getCondition() == condition
    assert spark.sql("select * from lake.`good`").collect() == [(1,)]


def test_client_of_hdfs_leaves_signals_to_the_gateway(start_gateway, connect, put, wait_until):
    gateway = start_gateway()
    put("good/1.json", b'{"a": 1}\n')
    assert connect(gateway).sql("select * from lake.`good`").collect() == [(1,)]
    gateway.signal(signal.SIGHUP)
    wait_until(
        lambda: "configuration_reloaded" in gateway.log() or gateway.process.poll() is not None, "the gateway reloads"
    )
    assert gateway.stop() == 0
    assert "lodge_stopped" in gateway.log()
