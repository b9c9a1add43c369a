"""Scans of files in HDFS, where it differs from object stores. Numbers in comments are the guarantees of
``engine.storage.remote``.
"""

import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from threading import Timer

import pytest

from engine.errors import FileChangedError, PathNotFoundError, UnreadableFileError
from engine.file_scan.file_scan import FileScan
from engine.file_scan.partition_reading import read_partition
from engine.file_scan.partitions import plan_partitions
from engine.file_scan.schema_discovery import discover_schema
from engine.scan_source import ScanSource
from engine.storage.files import list_files, open_file
from engine.storage.remote import _connect
from tests.cluster.hdfs import HdfsServer

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("hdfs_client")]

REPOSITORY = Path(__file__).parents[2]
LARGE = b'{"a": 1}\n' * 1_000_000
FILES = sorted(["d/a.json", *(f"d/{number}/a.json" for number in range(30))])
HANG_SECONDS = 120
DENIED = "the user of the process may not read it"
DOWN = "HDFS does not answer"
WITHOUT_A_CLIENT = """
from engine.scan_source import ScanSource
from engine.storage.files import list_files
list_files(ScanSource("lake", "hdfs://127.0.0.1:1/data", "d"))
"""


class Lake:
    """A workspace in HDFS."""

    def __init__(self, server, directory):
        self.server = server
        self.directory = directory
        self._storage = server.filesystem()

    def put(self, path, content=b'{"a": 1}\n', umask=None):
        storage = self.server.filesystem(umask) if umask else self._storage
        with storage.open_output_stream(f"{self.directory}/{path}") as stream:
            stream.write(content)

    def source(self, path):
        return ScanSource("lake", self.server.uri(self.directory), path)


@pytest.fixture
def lake(hdfs_server):
    with hdfs_server.directory() as directory:
        yield Lake(hdfs_server, directory)


def read(source):
    scan = FileScan.from_options(source.to_options(reader={}))
    schema = discover_schema(scan)
    batches = [
        batch for files in plan_partitions(scan) for batch in read_partition(scan, files, schema, is_declared=False)
    ]
    return [row for batch in batches for row in batch.to_pylist()]


def paths(source):
    return [file.path for file in list_files(source)]


def require_clear_errors(lake, listed, match):
    """Check that neither a listing nor an opening of any kind reports that files are missing."""
    for path in ("d", "d/a.json", "d/*.json", "*/*.json", "nothing", "."):
        with pytest.raises(UnreadableFileError, match=match) as raised:
            list_files(lake.source(path))
        assert "127.0.0.1" not in str(raised.value)
        assert str(lake.server.port) not in str(raised.value)
    with pytest.raises(UnreadableFileError, match=match):
        open_file(lake.source("d/a.json"), listed)


def test_partitions_in_nested_directories_are_columns(lake):
    for year, month in ((2025, 1), (2026, 2)):
        lake.put(f"d/year={year}/month={month}/a.json")
    rows = read(lake.source("d"))
    assert [(row["a"], row["year"], row["month"]) for row in rows] == [(1, 2025, 1), (1, 2026, 2)]


def test_workspace_can_be_the_root(lake):  # 1
    lake.put("d/a.json")
    for root in (lake.server.uri(""), lake.server.uri("/")):
        name = lake.directory.removeprefix("/")
        assert paths(ScanSource("lake", root, name)) == [f"{name}/d/a.json"]
        assert f"{name}/d/a.json" in paths(ScanSource("lake", root, "."))


def test_unfinished_copies_are_ignored(lake):  # 2
    lake.put("d/a.json")
    lake.put("d/b.json._COPYING_")
    assert paths(lake.source("d")) == ["d/a.json"]


def test_missing_path_is_reported_as_missing(lake):
    lake.put("d/a.json")
    for path in ("nothing", "d/nothing.json", "d/no*.json", "nothing/*.json", "d/a:b", "hdfs:x"):
        with pytest.raises(PathNotFoundError):
            list_files(lake.source(path))


def test_empty_directory_has_no_files(lake):
    lake.server.filesystem().create_dir(f"{lake.directory}/d/empty")
    assert paths(lake.source("d")) == []


def test_directory_without_rights_is_an_error_and_not_left_out(lake):  # 4
    lake.put("d/a.json")
    lake.server.filesystem(umask="077").create_dir(f"{lake.directory}/d/private")
    lake.put("d/private/below/a.json")
    for path in ("d", "d/private", "d/private/below", "d/private/below/a.json", "d/*/*/*.json", "."):
        with pytest.raises(UnreadableFileError, match=DENIED):
            list_files(lake.source(path))
    assert paths(lake.source("d/a.json")) == ["d/a.json"]


def test_file_without_rights_is_an_error(lake):  # 4
    lake.put("d/a.json")
    lake.put("d/a.json", umask="077")
    (listed,) = list_files(lake.source("d"))
    with pytest.raises(UnreadableFileError, match=rf"'d/a\.json' in workspace 'lake' cannot be read: {DENIED}"):
        open_file(lake.source("d"), listed)


def test_file_that_is_replaced_while_it_is_read_is_an_error(lake):  # 3
    lake.put("a.json", LARGE)
    (listed,) = list_files(lake.source("a.json"))
    file = open_file(lake.source("a.json"), listed)
    assert file.read(9) == LARGE[:9]
    time.sleep(1.1)  # the resolution of modification times
    lake.put("a.json", LARGE)
    with pytest.raises(FileChangedError):
        while True:  # until the server has removed the blocks of the old file
            time.sleep(0.2)
            file.seek(5_000_000)
            file.read(9)
            file.seek(0)
            file.read(9)
    with pytest.raises(FileChangedError):
        file.close()


def test_server_that_fails_is_a_clear_error_and_no_hang(monkeypatch, wait_until):  # 2, 4
    """One server does not answer, then dies during a listing, and then is down."""
    with HdfsServer() as server:
        lake = Lake(server, "/data")
        for path in FILES:
            lake.put(path)
        (listed,) = list_files(lake.source("d/a.json"))
        with monkeypatch.context() as patch:
            patch.setattr("engine.storage.remote._HDFS_REQUEST_SECONDS", 1.0)
            _connect.cache_clear()
            require_no_hang_during_a_pause(lake, listed, wait_until)
        _connect.cache_clear()
        kill_during_a_listing(lake)
        require_no_hang(lake, listed)


def require_no_hang(lake, listed):
    """Check that a server that does not answer is a clear error, in time."""
    begin = time.monotonic()
    require_clear_errors(lake, listed, DOWN)
    assert time.monotonic() - begin < HANG_SECONDS


def require_no_hang_during_a_pause(lake, listed, wait_until):
    """Check that a server that does not answer is a clear error, and that the lake can be listed after the pause."""
    with lake.server.process.paused():
        require_no_hang(lake, listed)
    found = []

    def is_listed():
        with suppress(UnreadableFileError):  # the server first answers the requests of the pause
            found.append(paths(lake.source("d")))
        return found

    wait_until(is_listed, "the server answers")
    assert found == [FILES]


def kill_during_a_listing(lake):
    """Kill the server, and check that no listing leaves out files."""
    begin = time.monotonic()
    assert paths(lake.source("d")) == FILES
    killing = Timer((time.monotonic() - begin) / 2, lake.server.process.kill)
    killing.start()
    with pytest.raises(UnreadableFileError, match=DOWN):
        while True:
            assert paths(lake.source("d")) == FILES
    killing.join()


def test_unknown_host_is_a_clear_error():  # 4
    with pytest.raises(UnreadableFileError, match=DOWN) as raised:
        list_files(ScanSource("lake", "hdfs://no-such-host.invalid:8020/data", "d"))
    assert "no-such-host" not in str(raised.value)


def test_process_without_a_client_is_named(tmp_path):  # 4
    variables = {name: value for name, value in os.environ.items() if name not in {"CLASSPATH", "HADOOP_HOME"}}
    variables |= {"ARROW_LIBHDFS_DIR": str(tmp_path), "PYTHONPATH": str(REPOSITORY)}
    result = subprocess.run(
        [sys.executable, "-c", WITHOUT_A_CLIENT],
        env=variables,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "'d' in workspace 'lake' cannot be read: the process has no HDFS client" in result.stderr


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "-Xrs -Xms8m"),
        ("-Xmx1g", "-Xrs -Xms8m -Xmx1g"),
        ("-Xrs -Xmx1g", "-Xms8m -Xrs -Xmx1g"),
        ("-Xms1g", "-Xrs -Xms1g"),
    ],
)
def test_client_leaves_signals_and_memory_to_the_process(hdfs_server, monkeypatch, before, after):
    monkeypatch.setenv("LIBHDFS_OPTS", before)
    _connect.__wrapped__(hdfs_server.uri("/"))
    assert os.environ["LIBHDFS_OPTS"] == after


def test_client_starts_under_the_memory_limit_of_a_large_machine(lake):
    lake.put("d/a.json")
    program = f"""
from engine.memory_limit import limited_memory
from engine.storage.files import list_files
from engine.scan_source import ScanSource
with limited_memory():
    print(*[file.path for file in list_files({lake.source("d")!r})])
"""
    variables = os.environ | {"LIBHDFS_OPTS": "-XX:MaxRAM=1t", "PYTHONPATH": str(REPOSITORY)}
    result = subprocess.run([sys.executable, "-c", program], env=variables, capture_output=True, text=True, check=False)
    assert result.stdout.split() == ["d/a.json"], result.stderr
