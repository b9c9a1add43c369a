"""Scans of raw files in an S3 bucket and in HDFS, through a gateway and a Spark server that can reach both."""

import signal

import pytest
from pyspark.errors import AnalysisException

from tests.cluster.s3 import REGION
from tests.cluster.s3_proxy import S3Proxy

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def proxy(s3_server):
    with S3Proxy(s3_server.endpoint) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def bucket(s3_server):
    return s3_server.bucket()


@pytest.fixture(scope="module")
def directory(hdfs_client, hdfs_server):
    """A directory of HDFS with a subdirectory that only the superuser may list."""
    with hdfs_server.directory() as directory:
        hdfs_server.filesystem(umask="077").create_dir(f"{directory}/private")
        yield directory


@pytest.fixture(scope="module")
def put(s3_server, hdfs_server, bucket, directory):
    """Write a file of the workspace ``lake`` or ``hdfs``."""
    places = {"lake": (s3_server.filesystem(), f"{bucket}/raw"), "hdfs": (hdfs_server.filesystem(), directory)}

    def write(workspace, path, content):
        storage, place = places[workspace]
        with storage.open_output_stream(f"{place}/{path}") as stream:
            stream.write(content)

    return write


@pytest.fixture(scope="module")
def workspaces(proxy, bucket, hdfs_server, directory):
    """The options of a gateway for both workspaces."""
    lake = f"s3://{bucket}/raw?endpoint_override={proxy.endpoint}&scheme=http&region={REGION}"
    return ["--workspace", f"lake={lake}", "--workspace", f"hdfs={hdfs_server.uri(directory)}"]


@pytest.fixture(scope="module")
def environment(s3_server, workspaces):
    """Give gateways and executors credentials, and the client of HDFS without options."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", s3_server.access_key)
        patch.setenv("AWS_SECRET_ACCESS_KEY", s3_server.secret_key)
        patch.delenv("LIBHDFS_OPTS")  # the engine sets what it needs
        yield


@pytest.fixture(scope="module")
def lodge(start_lodge, start_spark, environment, workspaces, tmp_path_factory):
    server = start_spark(tmp_path_factory.mktemp("spark"))
    return start_lodge(*workspaces, backend=server.address)


@pytest.mark.parametrize("workspace", ["lake", "hdfs"])
def test_drifting_directory_is_queried_and_stored(spark, put, workspace):
    put(workspace, "events/2025/1.json", b'{"a": 1}\n')
    put(workspace, "events/2026/1.json", b'{"a": 2.5, "b": "x"}\n')
    rows = spark.sql(f"select dir0, a, b from {workspace}.`events` order by a").collect()
    assert rows == [("2025", 1.0, None), ("2026", 2.5, "x")]
    spark.sql(f"create temporary table {workspace}_sum as select sum(a) s from {workspace}.`events/*/1.json`")
    assert spark.table(f"{workspace}_sum").collect() == [(3.5,)]
    assert spark.sql(f"select count(*) from {workspace}.`events` where dir0 = '2026'").collect() == [(1,)]


def test_files_of_excluded_directories_are_not_read(spark, put, proxy):
    for number in range(20):
        put("lake", f"days/{number:02}/1.csv", b"a\n1\n")
    query = "select count(*) from lake.`days` where dir0 = '07'"
    assert spark.sql(query).collect() == [(2,)]
    before = proxy.operations["get"]
    assert spark.sql(query).collect() == [(2,)]
    assert proxy.operations["get"] - before <= 1 + 2 * 20  # each of two plans examines files that are so new


@pytest.mark.parametrize(
    ("workspace", "condition_by_path"),
    [
        (
            "lake",
            {
                "../secret/a.json": "LODGE_PATH_REFUSED",
                "events//2025": "LODGE_PATH_REFUSED",
                "events/%2e%2e/x": "LODGE_FILE_NOT_FOUND",
                "nothing": "LODGE_FILE_NOT_FOUND",
            },
        ),
        ("hdfs", {"nothing": "LODGE_FILE_NOT_FOUND", "private": "LODGE_UNREADABLE_FILE"}),
    ],
)
def test_bad_paths_are_clear_errors(spark, put, workspace, condition_by_path):
    put(workspace, "good/1.json", b'{"a": 1}\n')
    for path, condition in condition_by_path.items():
        with pytest.raises(AnalysisException, match=rf"workspace .?.?{workspace}") as raised:
            spark.sql(f"select * from {workspace}.`{path}`").collect()
        assert raised.value.getCondition() == condition, path
    assert spark.sql(f"select * from {workspace}.`good`").collect() == [(1,)]


def test_storage_that_refuses_is_a_clear_error_and_the_next_statement_works(spark, put, proxy):
    put("lake", "refused/1.json", b'{"a": 1}\n')
    proxy.fail("AccessDenied")
    with pytest.raises(AnalysisException, match="'refused' in workspace 'lake' cannot be read") as raised:
        spark.sql("select * from lake.`refused`").collect()
    assert raised.value.getCondition() == "LODGE_UNREADABLE_FILE"
    assert proxy.endpoint not in str(raised.value)
    proxy.fault = lambda operation, path: None
    assert spark.sql("select * from lake.`refused`").collect() == [(1,)]


def test_nothing_can_be_written(spark, put):
    put("lake", "good/1.json", b'{"a": 1}\n')
    for statement in ("create table lake.t as select 1 a", "drop table lake.`good`"):
        with pytest.raises(AnalysisException):
            spark.sql(statement).collect()
    assert spark.sql("select * from lake.`good`").collect() == [(1,)]


def test_client_of_hdfs_leaves_signals_to_the_gateway(spark, lodge, put, wait_until):
    """The last test, because it stops the gateway."""
    put("hdfs", "good/1.json", b'{"a": 1}\n')
    assert spark.sql("select * from hdfs.`good`").collect() == [(1,)]
    lodge.signal(signal.SIGHUP)
    wait_until(
        lambda: "configuration_reloaded" in lodge.log() or lodge.process.poll() is not None, "the gateway reloads"
    )
    assert lodge.stop() == 0
    assert "lodge_stopped" in lodge.log()
