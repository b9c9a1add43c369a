"""Scans of files in S3, Google Cloud Storage, Azure and HDFS. Numbers in comments are the guarantees of
``engine.storage.remote``.
"""

import io
import itertools
import json
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pyarrow as pa
import pytest
from pyarrow import feather, orc, parquet
from pyarrow.fs import AzureFileSystem

from engine.errors import (
    FileChangedError,
    PathNotFoundError,
    PathRefusedError,
    TableDirectoryError,
    UnreadableFileError,
)
from engine.file_scan.file_scan import FileScan
from engine.file_scan.partition_reading import read_partition
from engine.file_scan.partitions import plan_partitions
from engine.file_scan.schema_discovery import discover_schema
from engine.scan_source import ScanSource
from engine.spark_discovery import DiscoveryReader
from engine.storage.files import list_files, open_file
from engine.storage.remote import _connect
from tests.cluster.clouds import AzureServer
from tests.cluster.s3 import REGION
from tests.cluster.s3_proxy import ERRORS, HANG, RESET, TRUNCATE, S3Proxy
from tests.workspace.object_store.servers import BUCKET, with_exact_keys

pytestmark = pytest.mark.slow

TABLE = pa.table({"a": [1, 2, None], "b": ["x", "é", ""]})
DEADLINE_SECONDS = 60.0
LARGE_BYTES = 9 * 1024 * 1024
PAGE = 1000
"""The most files in the response to one request."""
PREFIX = "lake"


class Lake:
    """A workspace in a bucket."""

    def __init__(self, storage, bucket, root):
        self._storage = storage
        self._place = f"{bucket}/{PREFIX}"
        self.root = root

    def put(self, path, content):
        with self._storage.open_output_stream(f"{self._place}/{path}") as stream:
            stream.write(content)

    def remove(self, path):
        self._storage.delete_file(f"{self._place}/{path}")

    def replace(self, path, content):
        """Replace a file, until its modification time has changed."""
        before = self._storage.get_file_info(f"{self._place}/{path}").mtime_ns
        while self._storage.get_file_info(f"{self._place}/{path}").mtime_ns == before:
            self.put(path, content)

    def source(self, path):
        return ScanSource("lake", self.root, path)

    def read(self, path, **options):
        return read(self.source(path), **options)


class S3Lake(Lake):
    """A workspace in S3, behind a proxy."""

    def __init__(self, server, bucket, proxy):
        self.proxy = proxy
        address = f"endpoint_override={proxy.endpoint}&scheme=http&region={REGION}"
        super().__init__(server.filesystem(), bucket, f"s3://{bucket}/{PREFIX}?{address}")


def read(source, **options):
    scan = FileScan.from_options(source.to_options(reader=options))
    schema = discover_schema(scan)
    batches = [
        batch for files in plan_partitions(scan) for batch in read_partition(scan, files, schema, is_declared=False)
    ]
    return pa.Table.from_batches(batches, schema.to_arrow()).to_pylist()


@pytest.fixture
def lake(s3_server, bucket, monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", s3_server.access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", s3_server.secret_key)
    with S3Proxy(s3_server.endpoint) as proxy:
        yield S3Lake(s3_server, bucket, proxy)


def lake_at(server, monkeypatch):
    if isinstance(server, AzureServer):
        monkeypatch.setenv("AZURE_STORAGE_KEY", server.account_key)
    bucket = server.bucket()
    return Lake(server.filesystem(), bucket, server.uri(bucket, PREFIX))


@pytest.fixture
def hdfs_lake(hdfs_client, hdfs_server):
    with hdfs_server.directory() as directory:
        yield Lake(hdfs_server.filesystem(), directory, hdfs_server.uri(f"{directory}/{PREFIX}"))


@pytest.fixture(params=["s3", "gs", "abfss", "hdfs"])
def any_lake(request, s3_programs, cloud_programs, monkeypatch):
    """A workspace in an object store or HDFS."""
    if request.param == "s3":
        return request.getfixturevalue("lake")
    if request.param == "hdfs":
        return request.getfixturevalue("hdfs_lake")
    return lake_at(request.getfixturevalue({"gs": "gcs_server", "abfss": "azure_server"}[request.param]), monkeypatch)


def content(suffix):
    if suffix == "json":
        return b"".join(json.dumps(row).encode() + b"\n" for row in TABLE.to_pylist())
    if suffix == "csv":
        return b'a,b\n1,x\n"2","\xc3\xa9"\n'
    sink = io.BytesIO()
    {"parquet": parquet.write_table, "orc": orc.write_table, "arrow": feather.write_feather}[suffix](TABLE, sink)
    return sink.getvalue()


def test_rows_are_those_of_local_files(any_lake, tmp_path):
    for suffix in ("json", "csv", "parquet", "orc", "arrow"):
        any_lake.put(f"a.{suffix}", content(suffix))
        (tmp_path / f"a.{suffix}").write_bytes(content(suffix))
        rows = any_lake.read(f"a.{suffix}")
        assert rows == read(ScanSource("lake", str(tmp_path), f"a.{suffix}")), suffix
        assert len(rows) == 3


def test_directory_with_drift_gives_all_rows_and_the_columns_of_its_path(any_lake):
    any_lake.put("d/1.json", b'{"a": 1}\n')
    any_lake.put("d/2026/2.json", b'{"a": 2.5, "b": "x"}\n')
    assert any_lake.read("d") == [{"a": 1.0, "b": None, "dir0": None}, {"a": 2.5, "b": "x", "dir0": "2026"}]


def test_files_are_selected_as_in_a_directory(any_lake):  # 2
    for path in ("d/b.json", "d/a.json", "d/_c.json", "d/.d.json", "d/_e/f.json", "d/g/h.json", "other.json"):
        any_lake.put(path, b'{"a": 1}\n')
    paths = {
        path: [file.path for file in list_files(any_lake.source(path))]
        for path in ("d", "d/*.json", "**/h.json", "d/a.json", ".")
    }
    assert paths == {
        "d": ["d/a.json", "d/b.json", "d/g/h.json"],
        "d/*.json": ["d/a.json", "d/b.json"],
        "**/h.json": ["d/g/h.json"],
        "d/a.json": ["d/a.json"],
        ".": ["d/a.json", "d/b.json", "d/g/h.json", "other.json"],
    }


def test_directory_of_a_table_is_refused_as_in_a_directory(any_lake):  # 2
    for path in ("d/t/_delta_log/0.json", "d/i/metadata/v1.metadata.json", "d/h/.hoodie/hoodie.properties"):
        any_lake.put(path, b"{}\n")
    for path in ("d/t/p=1/a.json", "d/i/data/a.json", "d/h/a.json", "d/o/_p=1/a.json"):
        any_lake.put(path, b'{"a": 1}\n')
    refused = {"d/t/p=1": "d/t", "d/t": "d/t", "d/i/data": "d/i", "d/i/d*": "d/i", "d/h": "d/h", "d/*": "d/h"}
    for path, table in refused.items():
        with pytest.raises(TableDirectoryError) as raised:
            list_files(any_lake.source(path))
        assert raised.value.path == table, path
    assert [file.path for file in list_files(any_lake.source("d/o"))] == ["d/o/_p=1/a.json"]
    assert [file.path for file in list_files(any_lake.source("d/h"), is_raw=True)] == ["d/h/a.json"]
    assert [file.path for file in list_files(any_lake.source("d/i/data/a.json"))] == ["d/i/data/a.json"]


def test_path_that_may_lead_out_is_refused(any_lake):  # 1
    for path in ("../other/a.json", "d/../../other/a.json", "/other/a.json", "d//a.json", "d\0"):
        with pytest.raises(PathRefusedError):
            list_files(any_lake.source(path))


def test_only_exact_names_exist(any_lake):  # 1
    any_lake.put("d/a.json", b'{"a": 1}\n')
    for path in ("d%2fa.json", "%2e%2e/other/a.json", "D/a.json", "d/a.jso", "d/*.csv"):
        with pytest.raises(PathNotFoundError):
            list_files(any_lake.source(path))


def test_workspace_does_not_contain_other_prefixes(any_lake):  # 1
    any_lake.put("../lake2/a.json".replace("../lake2", "x"), b'{"a": 1}\n')
    shorter = any_lake.root.replace("/lake", "/la")
    with pytest.raises(PathNotFoundError):
        list_files(ScanSource("lake", shorter, "."))


def test_object_whose_name_is_no_path_is_an_error(tmp_path, s3_programs, monkeypatch):  # 1
    with with_exact_keys(tmp_path) as server:
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", server.raw.access_key)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", server.raw.secret_key)
        root = f"s3://{BUCKET}/lake?endpoint_override={server.raw.endpoint}&scheme=http&region={REGION}"
        server.raw.put(BUCKET, "lake/d/a.json", b'{"a": 1}\n')
        source = ScanSource("lake", root, "d")
        for name in ("../../secret.json", "/a.json", "./b.json"):
            assert [file.path for file in list_files(source)] == ["d/a.json"]
            server.raw.put(BUCKET, f"lake/d/{name}", b'{"a": 2}\n')
            with pytest.raises(UnreadableFileError, match="rename the object"):
                list_files(source)
            server.raw.request("DELETE", f"/{BUCKET}/lake/d/{name}")


def test_requests_are_few_and_do_not_depend_on_the_number_of_files(lake):
    count = PAGE + 5
    for number in range(count):
        lake.put(f"d/{number}.json", b"{}\n")
    files = list_files(lake.source("d"))
    assert len(files) == count
    assert (
        lake.proxy.operations["list"] <= 6
    )  # two pages, one to look at the directory, three for marks of tables above
    lake.proxy.operations.clear()
    with open_file(lake.source("d"), files[0]) as file:
        assert file.read() == b"{}\n"
    assert lake.proxy.operations == {"head": 2, "get": 1}


@pytest.mark.parametrize("work", ["scan", "discovery"])
def test_small_files_of_a_task_are_fetched_at_the_same_time(lake, work):
    """The proxy answers the ninth request, and those after it, only when four of them wait."""
    count, alone, together = 18, 8, 4
    for number in range(count):
        lake.put(f"d/{number:02}.json", b'{"a": 1}\n')
    scan = FileScan.from_options(lake.source("d").to_options(reader={}))
    schema = discover_schema(scan)
    (files,) = plan_partitions(scan)
    (group,) = DiscoveryReader(scan).partitions()
    requests = itertools.count(1)
    answers = threading.Event()

    def wait(operation, _):
        if operation == "get":
            number = next(requests)
            if number == alone + together:
                answers.set()
            assert number <= alone or answers.wait(DEADLINE_SECONDS)

    lake.proxy.fault = wait
    if work == "scan":
        assert sum(batch.num_rows for batch in read_partition(scan, files, schema, is_declared=False)) == count
    else:
        (findings,) = DiscoveryReader(scan).read(group)
        assert findings["error"].null_count == len(findings)
    assert next(requests) == count + 1


def test_replaced_file_is_an_error(any_lake):  # 3
    any_lake.put("a.json", b'{"a": 1}\n')
    (listed,) = list_files(any_lake.source("a.json"))
    any_lake.replace("a.json", b'{"a": 2}\n')
    with pytest.raises(FileChangedError, match=r"'a\.json' in workspace 'lake'"):
        open_file(any_lake.source("a.json"), listed)
    any_lake.replace("a.json", b'{"a": 3}\n' * 1000)
    with pytest.raises(FileChangedError):
        open_file(any_lake.source("a.json"), listed)
    any_lake.remove("a.json")
    with pytest.raises(PathNotFoundError):
        open_file(any_lake.source("a.json"), listed)


def test_large_file_that_is_replaced_while_it_is_read_is_an_error(any_lake):  # 3
    any_lake.put("a.json", b'{"a": 1}\n' * (LARGE_BYTES // 9))
    (listed,) = list_files(any_lake.source("a.json"))
    file = open_file(any_lake.source("a.json"), listed)
    assert file.read(9) == b'{"a": 1}\n'
    any_lake.replace("a.json", b'{"a": 2}\n' * (LARGE_BYTES // 9))
    with pytest.raises(FileChangedError):
        file.close()


def test_file_that_was_just_written_is_not_settled(any_lake, monkeypatch):  # 3
    any_lake.put("a.json", b"{}\n")
    for seconds, is_settled in ((60.0, False), (-1.0, True)):
        monkeypatch.setattr("engine.storage.remote._SETTLED_SECONDS", seconds)
        assert [file.is_settled for file in list_files(any_lake.source("a.json"))] == [is_settled]


def test_request_that_fails_once_is_repeated(lake):
    lake.put("d/a.json", b'{"a": 1}\n' * 10)
    for fault in ("InternalError", "SlowDown", RESET, TRUNCATE):
        for operation in ("list", "head", "get"):
            lake.proxy.fail(fault, times=1, operation=operation)
            assert lake.read("d") == [{"a": 1}] * 10, (fault, operation)


@pytest.mark.parametrize("operation", ["list", "get"])
@pytest.mark.parametrize("fault", [*ERRORS, RESET])
def test_lasting_fault_names_the_file_and_no_address(lake, fault, operation):  # 4
    lake.put("d/a.json", b'{"a": 1}\n' * 10)
    lake.proxy.fail(fault, operation=operation)
    with pytest.raises(UnreadableFileError, match=r"'d(/a\.json)?' in workspace 'lake' cannot be read") as raised:
        lake.read("d")
    assert lake.proxy.endpoint not in str(raised.value)
    assert "127.0.0.1" not in str(raised.value)
    lake.proxy.fault = lambda operation, path: None
    assert lake.read("d") == [{"a": 1}] * 10


def test_expired_credentials_are_named(lake):  # 4
    lake.put("d/a.json", b'{"a": 1}\n')
    lake.proxy.fail("ExpiredToken", operation="list")
    with pytest.raises(UnreadableFileError, match="expired"):
        lake.read("d")


def test_storage_that_does_not_answer_is_an_error_and_no_hang(lake, monkeypatch):  # 4
    monkeypatch.setattr("engine.storage.remote._REQUEST_SECONDS", 1.0)
    lake.put("d/a.json", b'{"a": 1}\n')
    lake.proxy.fail(HANG)
    with pytest.raises(UnreadableFileError, match="does not answer"):
        lake.read("d")


def test_wrong_credentials_are_named(lake, monkeypatch):  # 4
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    lake.put("d/a.json", b'{"a": 1}\n')
    with pytest.raises(UnreadableFileError, match="credentials of the process do not allow it") as raised:
        lake.read("d")
    assert "wrong" not in str(raised.value)


def test_wrong_key_of_azure_is_named(azure_server, monkeypatch):  # 4
    lake = lake_at(azure_server, monkeypatch)
    monkeypatch.setenv("AZURE_STORAGE_KEY", "d3Jvbmc=")  # file systems are kept by root, and this one is new
    with pytest.raises(UnreadableFileError, match="credentials of the process do not allow it") as raised:
        lake.read("d")
    assert "d3Jvbmc" not in str(raised.value)


def test_uri_names_the_cloud_of_azure():
    def file_system(cloud):
        return AzureFileSystem(
            "account", blob_storage_authority=f".blob.{cloud}", dfs_storage_authority=f".dfs.{cloud}"
        )

    connected = _connect("abfss://container@account.dfs.core.example.net/d")
    assert connected == file_system("core.example.net")
    assert connected != file_system("core.windows.net")


class Refusing(BaseHTTPRequestHandler):
    """Answers every request with the status and the body of the server."""

    def do_GET(self):
        self.send_response(self.server.status)
        self.send_header("Content-Length", str(len(self.server.body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(self.server.body)

    do_HEAD = do_GET  # noqa: N815 - the name of the base class

    def log_message(self, *_):
        """Write nothing."""


@pytest.fixture
def refusing_server(monkeypatch):
    monkeypatch.setattr("engine.storage.remote._RETRY_TIME", timedelta(seconds=1))
    monkeypatch.setenv("AZURE_STORAGE_KEY", "00000000")
    with ThreadingHTTPServer(("127.0.0.1", 0), Refusing) as server, ThreadPoolExecutor(1) as thread:
        thread.submit(server.serve_forever)
        yield server
        server.shutdown()


@pytest.mark.parametrize(
    ("place", "body"),
    [
        ("gs://b/d?anonymous=true&", ""),
        ("gs://b/d?anonymous=true&", '{{"error": {{"code": {status}, "message": "no"}}}}'),
        ("gs://b/d?anonymous=true&", "<html><title>Error {status} (Refused)!!1</title></html>"),
        ("abfss://c@account.dfs.core.windows.net/d?", ""),
    ],
)
@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (401, "the credentials of the process do not allow it"),
        (403, "the credentials of the process do not allow it"),
        (429, "too many"),
        (500, "does not answer"),
        (503, "too many"),
    ],
)
def test_status_of_a_response_is_the_reason(refusing_server, place, body, status, reason):  # 4
    refusing_server.status, refusing_server.body = status, body.format(status=status).encode()
    root = f"{place}endpoint_override=127.0.0.1:{refusing_server.server_port}&scheme=http"
    with pytest.raises(UnreadableFileError, match=reason):
        list_files(ScanSource("lake", root, "d"))


@pytest.mark.parametrize("place", ["gs://b/d?anonymous=true&", "abfss://c@account.dfs.core.windows.net/d?"])
def test_storage_that_is_down_is_an_error_without_address(place, monkeypatch):  # 4
    """The port has the digits of a status, 429 Too Many Requests, which are no cause."""
    monkeypatch.setattr("engine.storage.remote._RETRY_TIME", timedelta(seconds=1))
    monkeypatch.setenv("AZURE_STORAGE_KEY", "00000000")
    with closed_port(range(14_290, 14_300)) as port:
        root = f"{place}endpoint_override=127.0.0.1:{port}&scheme=http"
        with pytest.raises(
            UnreadableFileError, match=r"'d' in workspace 'lake' cannot be read: the storage does not answer"
        ) as raised:
            list_files(ScanSource("lake", root, "d"))
    assert "127.0.0.1" not in str(raised.value)
    assert str(port) not in str(raised.value)


@contextmanager
def closed_port(ports):
    """Yield one of these ports. It refuses connections, and no other process can use it."""
    with socket.socket() as taken:
        for port in ports:
            with suppress(OSError):
                taken.bind(("127.0.0.1", port))
                break
        assert taken.getsockname()[1] in ports
        yield port


@pytest.mark.parametrize("any_lake", ["s3", "gs", "abfss"], indirect=True)
def test_missing_bucket_is_named(any_lake):  # 4
    root = any_lake.root.replace("://", "://no-such-")
    with pytest.raises(UnreadableFileError, match="bucket of the workspace does not exist"):
        read(ScanSource("lake", root, "d"))


def test_storage_without_credentials_is_named():  # 4
    with pytest.raises(UnreadableFileError, match="credentials"):
        read(ScanSource("lake", "abfss://c@account.dfs.core.windows.net/d", "d"))


def test_readers_are_slowed_down_and_get_all_rows(lake):
    for number in range(20):
        lake.put(f"d/{number:02}.json", json.dumps({"a": number}).encode() + b"\n")
    refused = set()

    def refuse_once(operation, path):
        if (operation, path) in refused or not path.endswith("7.json"):
            return None
        refused.add((operation, path))
        return "SlowDown"

    lake.proxy.fault = refuse_once
    assert lake.read("d") == [{"a": number} for number in range(20)]
    assert len(refused) == 4  # head and get, of two files
