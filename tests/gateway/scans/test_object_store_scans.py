"""Scans of raw files in an S3 bucket, through a gateway and a Spark server that have credentials for it."""

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
def put(s3_server, bucket):
    storage = s3_server.filesystem()

    def write(path, content):
        with storage.open_output_stream(f"{bucket}/raw/{path}") as stream:
            stream.write(content)

    return write


@pytest.fixture(scope="module")
def lodge(start_lodge, start_spark, proxy, bucket, tmp_path_factory):
    """A gateway with the workspace ``lake``. Gateway and executors have the credentials in their environment."""
    server = start_spark(tmp_path_factory.mktemp("spark"))
    uri = f"s3://{bucket}/raw?endpoint_override={proxy.endpoint}&scheme=http&region={REGION}"
    return start_lodge("--workspace", f"lake={uri}", backend=server.address)


@pytest.fixture(scope="module", autouse=True)
def credentials(s3_server):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", s3_server.access_key)
        patch.setenv("AWS_SECRET_ACCESS_KEY", s3_server.secret_key)
        yield


def test_drifting_directory_is_queried_and_stored(spark, put):
    put("events/2025/1.json", b'{"a": 1}\n')
    put("events/2026/1.json", b'{"a": 2.5, "b": "x"}\n')
    rows = spark.sql("select dir0, a, b from lake.`events` order by a").collect()
    assert rows == [("2025", 1.0, None), ("2026", 2.5, "x")]
    spark.sql("create temporary table t as select sum(a) s from lake.`events/*/1.json`").collect()
    assert spark.table("t").collect() == [(3.5,)]
    assert spark.sql("select count(*) from lake.`events` where dir0 = '2026'").collect() == [(1,)]


def test_files_of_excluded_directories_are_not_read(spark, put, proxy):
    for number in range(20):
        put(f"days/{number:02}/1.csv", b"a\n1\n")
    query = "select count(*) from lake.`days` where dir0 = '07'"
    assert spark.sql(query).collect() == [(2,)]
    before = proxy.operations["get"]
    assert spark.sql(query).collect() == [(2,)]
    assert proxy.operations["get"] - before <= 1 + 2 * 20  # each of two plans examines files that are so new


@pytest.mark.parametrize(
    ("path", "condition"),
    [
        ("../secret/a.json", "LODGE_PATH_REFUSED"),
        ("events//2025", "LODGE_PATH_REFUSED"),
        ("events/%2e%2e/x", "LODGE_FILE_NOT_FOUND"),
        ("nothing", "LODGE_FILE_NOT_FOUND"),
    ],
)
def test_bad_paths_are_clear_errors(spark, put, path, condition):
    put("good/1.json", b'{"a": 1}\n')
    with pytest.raises(AnalysisException, match=r"workspace .?.?lake") as raised:
        spark.sql(f"select * from lake.`{path}`").collect()
    assert raised.value.getCondition() == condition
    assert spark.sql("select * from lake.`good`").collect() == [(1,)]


def test_storage_that_refuses_is_a_clear_error_and_the_next_statement_works(spark, put, proxy):
    put("refused/1.json", b'{"a": 1}\n')
    proxy.fail("AccessDenied")
    with pytest.raises(AnalysisException, match="'refused' in workspace 'lake' cannot be read") as raised:
        spark.sql("select * from lake.`refused`").collect()
    assert raised.value.getCondition() == "LODGE_UNREADABLE_FILE"
    assert proxy.endpoint not in str(raised.value)
    proxy.fault = lambda operation, path: None
    assert spark.sql("select * from lake.`refused`").collect() == [(1,)]


def test_nothing_can_be_written(spark, put):
    put("good/1.json", b'{"a": 1}\n')
    for statement in ("create table lake.t as select 1 a", "drop table lake.`good`"):
        with pytest.raises(AnalysisException):
            spark.sql(statement).collect()
    assert spark.sql("select * from lake.`good`").collect() == [(1,)]
