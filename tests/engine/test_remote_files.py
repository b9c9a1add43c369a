"""Scans of files in an S3 bucket. Numbers in comments are the guarantees of ``engine.storage.remote``."""

import io
import itertools
import json

import pyarrow as pa
import pytest
from pyarrow import feather, orc, parquet

from engine.errors import FileChangedError, PathNotFoundError, PathRefusedError, UnreadableFileError
from engine.file_scan import FileScan
from engine.scan_source import ScanSource
from engine.storage.files import list_files, open_file
from tests.cluster.s3 import REGION
from tests.cluster.s3_proxy import ERRORS, HANG, RESET, TRUNCATE, S3Proxy
from tests.workspace.object_store.servers import BUCKET, with_exact_keys

pytestmark = pytest.mark.slow

TABLE = pa.table({"a": [1, 2, None], "b": ["x", "é", ""]})
LARGE_BYTES = 9 * 1024 * 1024


class Lake:
    """A workspace in a bucket, behind a proxy."""

    def __init__(self, server, bucket, proxy):
        self.proxy = proxy
        self._storage = server.filesystem()
        self._place = f"{bucket}/lake"
        self.root = f"s3://{self._place}?endpoint_override={proxy.endpoint}&scheme=http&region={REGION}"

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


def read(source, **options):
    scan = FileScan.from_options(source.to_options(reader=options))
    schema = scan.discover()
    batches = [batch for files in scan.partitions() for batch in scan.batches(files, schema, is_declared=False)]
    return pa.Table.from_batches(batches, schema.to_arrow()).to_pylist()


@pytest.fixture
def lake(s3_server, bucket, monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", s3_server.access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", s3_server.secret_key)
    with S3Proxy(s3_server.endpoint) as proxy:
        yield Lake(s3_server, bucket, proxy)


def content(suffix):
    if suffix == "json":
        return b"".join(json.dumps(row).encode() + b"\n" for row in TABLE.to_pylist())
    if suffix == "csv":
        return b'a,b\n1,x\n"2","\xc3\xa9"\n'
    sink = io.BytesIO()
    {"parquet": parquet.write_table, "orc": orc.write_table, "arrow": feather.write_feather}[suffix](TABLE, sink)
    return sink.getvalue()


@pytest.mark.parametrize("suffix", ["json", "csv", "parquet", "orc", "arrow"])
def test_rows_are_those_of_local_files(lake, tmp_path, suffix):
    lake.put(f"a.{suffix}", content(suffix))
    (tmp_path / f"a.{suffix}").write_bytes(content(suffix))
    rows = lake.read(f"a.{suffix}")
    assert rows == read(ScanSource("lake", str(tmp_path), f"a.{suffix}"))
    assert len(rows) == 3


def test_directory_with_drift_gives_all_rows_and_the_columns_of_its_path(lake):
    lake.put("d/1.json", b'{"a": 1}\n')
    lake.put("d/2026/2.json", b'{"a": 2.5, "b": "x"}\n')
    assert lake.read("d") == [{"a": 1.0, "b": None, "dir0": None}, {"a": 2.5, "b": "x", "dir0": "2026"}]


def test_files_are_selected_as_in_a_directory(lake):  # 2
    for path in ("d/b.json", "d/a.json", "d/_c.json", "d/.d.json", "d/_e/f.json", "d/g/h.json", "other.json"):
        lake.put(path, b'{"a": 1}\n')
    paths = {
        path: [file.path for file in list_files(lake.source(path))]
        for path in ("d", "d/*.json", "**/h.json", "d/a.json", ".")
    }
    assert paths == {
        "d": ["d/a.json", "d/b.json", "d/g/h.json"],
        "d/*.json": ["d/a.json", "d/b.json"],
        "**/h.json": ["d/g/h.json"],
        "d/a.json": ["d/a.json"],
        ".": ["d/a.json", "d/b.json", "d/g/h.json", "other.json"],
    }


@pytest.mark.parametrize("path", ["../other/a.json", "d/../../other/a.json", "/other/a.json", "d//a.json", "d\0"])
def test_path_that_may_lead_out_is_refused(lake, path):  # 1
    with pytest.raises(PathRefusedError):
        list_files(lake.source(path))


@pytest.mark.parametrize("path", ["d%2fa.json", "%2e%2e/other/a.json", "D/a.json", "d/a.jso", "d/*.csv"])
def test_only_exact_names_exist(lake, path):  # 1
    lake.put("d/a.json", b'{"a": 1}\n')
    with pytest.raises(PathNotFoundError):
        list_files(lake.source(path))


def test_workspace_does_not_contain_other_prefixes(lake):  # 1
    lake.put("../lake2/a.json".replace("../lake2", "x"), b'{"a": 1}\n')
    shorter = lake.root.replace("/lake?", "/la?")
    with pytest.raises(PathNotFoundError):
        list_files(ScanSource("lake", shorter, "."))


@pytest.mark.parametrize("name", ["../../secret.json", "/a.json", "./b.json"])
def test_object_whose_name_is_no_path_is_an_error(tmp_path, s3_programs, monkeypatch, name):  # 1
    with with_exact_keys(tmp_path) as server:
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", server.raw.access_key)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", server.raw.secret_key)
        root = f"s3://{BUCKET}/lake?endpoint_override={server.raw.endpoint}&scheme=http&region={REGION}"
        server.raw.put(BUCKET, "lake/d/a.json", b'{"a": 1}\n')
        source = ScanSource("lake", root, "d")
        assert [file.path for file in list_files(source)] == ["d/a.json"]
        server.raw.put(BUCKET, f"lake/d/{name}", b'{"a": 2}\n')
        with pytest.raises(UnreadableFileError, match="rename the object"):
            list_files(source)


def test_requests_are_few_and_do_not_depend_on_the_number_of_files(lake):
    for number in range(2500):
        lake.put(f"d/{number}.json", b"{}\n")
    files = list_files(lake.source("d"))
    assert len(files) == 2500
    assert lake.proxy.operations["list"] <= 4
    lake.proxy.operations.clear()
    with open_file(lake.source("d"), files[0]) as file:
        assert file.read() == b"{}\n"
    assert lake.proxy.operations == {"head": 2, "get": 1}


def test_replaced_file_is_an_error(lake):  # 3
    lake.put("a.json", b'{"a": 1}\n')
    (listed,) = list_files(lake.source("a.json"))
    lake.replace("a.json", b'{"a": 2}\n')
    with pytest.raises(FileChangedError, match=r"'a\.json' in workspace 'lake'"):
        open_file(lake.source("a.json"), listed)
    lake.replace("a.json", b'{"a": 3}\n' * 1000)
    with pytest.raises(FileChangedError):
        open_file(lake.source("a.json"), listed)
    lake.remove("a.json")
    with pytest.raises(PathNotFoundError):
        open_file(lake.source("a.json"), listed)


def test_large_file_that_is_replaced_while_it_is_read_is_an_error(lake):  # 3
    lake.put("a.json", b'{"a": 1}\n' * (LARGE_BYTES // 9))
    (listed,) = list_files(lake.source("a.json"))
    file = open_file(lake.source("a.json"), listed)
    assert file.read(9) == b'{"a": 1}\n'
    lake.replace("a.json", b'{"a": 2}\n' * (LARGE_BYTES // 9))
    with pytest.raises(FileChangedError):
        file.close()


def test_file_that_was_just_written_is_not_settled(lake):  # 3
    lake.put("a.json", b"{}\n")
    assert [file.is_settled for file in list_files(lake.source("a.json"))] == [False]


@pytest.mark.parametrize("operation", ["list", "head", "get"])
@pytest.mark.parametrize("fault", ["InternalError", "SlowDown", RESET, TRUNCATE])
def test_request_that_fails_once_is_repeated(lake, fault, operation):
    lake.put("d/a.json", b'{"a": 1}\n' * 10)
    lake.proxy.fail(fault, times=1, operation=operation)
    assert lake.read("d") == [{"a": 1}] * 10


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


def test_missing_bucket_is_named(lake):  # 4
    root = lake.root.replace("s3://", "s3://no-such-")
    with pytest.raises(UnreadableFileError, match="bucket of the workspace does not exist"):
        read(ScanSource("lake", root, "d"))


@pytest.mark.parametrize(
    ("root", "reason"),
    [("hdfs://127.0.0.1:1/data", "no HDFS client"), ("abfss://c@account.dfs.core.windows.net/d", "credentials")],
)
def test_storage_without_a_client_is_named(root, reason):  # 4
    with pytest.raises(UnreadableFileError, match=reason):
        read(ScanSource("lake", root, "d"))


def test_many_readers_share_the_storage(lake):
    for number in range(40):
        lake.put(f"d/{number:02}.json", json.dumps({"a": number}).encode() + b"\n")
    calls = itertools.count()
    lake.proxy.fault = lambda operation, path: "SlowDown" if next(calls) % 7 == 3 else None
    assert lake.read("d") == [{"a": number} for number in range(40)]
