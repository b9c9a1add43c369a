"""Which files the gateway lists. Numbers in comments are the guarantees of ``gateway.scans.planner``."""

import asyncio
import threading

import pyarrow as pa
import pytest
from pyspark.sql.connect.proto import relations_pb2
from pyspark.sql.types import StructType

from engine.discovery import FINDINGS, encode_schema
from engine.file_list import FILES, unpack_files
from engine.file_scan.file_scan import FileScan
from engine.scan_signature import SIGNATURE
from engine.schema import TupleSchema
from engine.storage.listed_file import ListedFile
from gateway.backends.backend_rows import decode_rows
from gateway.blocking_work.storage import make_workspace_reads
from gateway.errors import GatewayError
from gateway.scans.planner import MAX_LISTINGS, ScanPlanner, SessionScans
from gateway.scans.scan_sources import source_in
from workspace.identifiers import Principal
from workspace.workspaces import Workspace, Workspaces


class BackendWithEngine:
    """A session at a backend that has the engine of the gateway, and whose jobs find the column ``a`` in each file."""

    server_side_session_id = "1"

    @property
    def operations(self):
        return self

    async def analyze_schema(self, relation):
        return StructType()

    async def add_artifact(self, name, data):
        self.files = {name: data}

    async def execute(self, plan, *, on_rows, on_progress):
        count = len(unpack_files(plan.root.read.data_source.options[FILES]))
        schema = encode_schema(TupleSchema([pa.field("a", pa.int64())]))
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, FINDINGS) as stream:
            rows = [{"files": list(range(count)), "schema": schema, "error": None}]
            stream.write_batch(pa.RecordBatch.from_pylist(rows, FINDINGS))
        await on_rows(sink.getvalue().to_pybytes())


@pytest.fixture
def workspaces(tmp_path):
    """The workspace ``dfs`` has a file without a reader, so that a gateway that lists it raises an error."""
    for name in ("files", "other", "temporary"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "private.xyz").touch()
    files, temporary = Workspace("dfs", tmp_path / "files"), Workspace("dfs.tmp", tmp_path / "temporary")
    return Workspaces({"dfs": files, "dfs.tmp": temporary}, temporary)


def relation(options):
    scan = relations_pb2.Relation()
    scan.read.data_source.format = "lodge"
    scan.read.data_source.options.update(options)
    return scan


def options_of(workspaces):
    return source_in(workspaces, workspaces.by_name["dfs"], ".").to_options()


async def plan(workspaces, scan, *, lists_files=True):
    planner = ScanPlanner(make_workspace_reads(), lambda known, discovered: None, lists_files=lists_files)
    await SessionScans(planner, Principal("ann"), BackendWithEngine(), workspaces).plan([scan])


async def test_many_scans_of_one_statement_have_a_limit(workspaces, monkeypatch):  # 6
    source = source_in(workspaces, workspaces.by_name["dfs"], "a.csv")
    (workspaces.by_name["dfs"].root / "a.csv").write_text("a\n1\n")
    scans = [relation(source.to_options()) for _ in range(2)]
    planner = ScanPlanner(make_workspace_reads(), lambda known, discovered: None)
    session = SessionScans(planner, Principal("ann"), BackendWithEngine(), workspaces)
    await session.plan(scans[:1])
    size_bytes = scans[0].ByteSize()
    monkeypatch.setattr("gateway.scans.planner.MAX_PLANNED_BYTES", size_bytes - 1)
    await session.plan(scans[1:2])  # a single scan has no limit
    monkeypatch.setattr("gateway.scans.planner.MAX_PLANNED_BYTES", 2 * size_bytes + 1)
    await session.plan([relation(source.to_options()) for _ in range(2)])
    with pytest.raises(GatewayError, match="does not plan this statement") as refused:
        await session.plan([relation(source.to_options()) for _ in range(3)])
    assert refused.value.condition == "LODGE_PLAN_TOO_LARGE"


@pytest.mark.parametrize("lists_files", [True, False])
async def test_gateway_lists_files_only_if_it_may(workspaces, lists_files):
    """With impersonation, the gateway may have more permissions than the client."""
    scan = relation(options_of(workspaces))
    if lists_files:
        with pytest.raises(Exception, match=r"private\.xyz"):
            await plan(workspaces, scan)
    else:
        await plan(workspaces, scan, lists_files=False)
        assert scan.read.data_source.options.pop(SIGNATURE)
    assert scan == relation(options_of(workspaces))


@pytest.mark.parametrize(
    "change",
    [
        {"root": "/"},
        {"root": "{parent}/other"},
        {"root": "s3://bucket/prefix?endpoint_override=127.0.0.1:1"},
        {"workspace": "dfs.tmp"},
        {"workspace": "nope"},
        {"excluded": "[]"},
        {"files": ""},
        {"Planned": "true"},
        {"task": "discover"},
    ],
)
async def test_gateway_does_not_act_on_options_of_a_client(workspaces, change):  # 4
    parent = workspaces.temporary.root.parent
    options = options_of(workspaces) | {key: value.replace("{parent}", str(parent)) for key, value in change.items()}
    scan = relation(options)
    await plan(workspaces, scan)
    assert scan == relation(options)


class SeenFiles(list):
    """Files that record which threads read them."""

    def __init__(self, files):
        super().__init__(files)
        self.threads = set()

    def __iter__(self):
        self.threads.add(threading.current_thread())
        return super().__iter__()

    def __getitem__(self, key):
        self.threads.add(threading.current_thread())
        return super().__getitem__(key)


class SeenCalls:
    """A function that records which threads call it."""

    def __init__(self, function):
        self._function = function
        self.threads = set()

    def __call__(self, *args, **options):
        self.threads.add(threading.current_thread())
        return self._function(*args, **options)


async def test_files_are_processed_outside_the_event_loop(workspaces, monkeypatch):
    files = SeenFiles([ListedFile(f"{number}.json", 10, "1") for number in range(20)])
    monkeypatch.setattr(FileScan, "list_files", lambda scan, on_progress: files)
    monkeypatch.setattr("gateway.backends.backend_rows.decode_rows", seen := SeenCalls(decode_rows))
    counts = []
    planner = ScanPlanner(make_workspace_reads(), lambda known, discovered: counts.append((known, discovered)))
    session = SessionScans(planner, Principal("ann"), BackendWithEngine(), workspaces)
    for _ in range(2):
        scan = relation(options_of(workspaces))
        (summary,) = await session.plan([scan])
        assert scan.read.data_source.options[FILES]
        assert summary.facts[0] == ("Files", "20 files (200 bytes)")
    assert counts == [(0, 20), (20, 0)]
    assert threading.current_thread() not in files.threads | seen.threads
    assert seen.threads


class SlowListing:
    """A listing that progresses until it must end."""

    def __init__(self):
        self.running = self.most = 0
        self.has_begun, self.may_end, self.has_ended = threading.Event(), threading.Event(), threading.Event()
        self.are_many = threading.Event()
        self._lock = threading.Lock()

    def __call__(self, scan, on_progress):
        if scan.source.path != ".":
            return [ListedFile(scan.source.path, 10, "1")]
        self._change(1)
        self.has_begun.set()
        try:
            while not self.may_end.wait(0.01):
                on_progress()
        finally:
            self._change(-1)
            self.has_ended.set()
        return [ListedFile("a.json", 10, "1")]

    def _change(self, number):
        with self._lock:
            self.running += number
            self.most = max(self.most, self.running)
            if self.running == MAX_LISTINGS:
                self.are_many.set()


@pytest.fixture
def slow_listing(monkeypatch):
    listing = SlowListing()
    monkeypatch.setattr(FileScan, "list_files", lambda scan, on_progress: listing(scan, on_progress))
    yield listing
    listing.may_end.set()


def start_plan(planner, workspaces, principal, path):
    scan = relation(source_in(workspaces, workspaces.by_name["dfs"], path).to_options())
    return asyncio.create_task(
        SessionScans(planner, Principal(principal), BackendWithEngine(), workspaces).plan([scan])
    )


async def test_slow_listings_of_one_client_do_not_delay_other_clients(workspaces, slow_listing):  # 5
    planner = ScanPlanner(make_workspace_reads(), lambda known, discovered: None)
    slow = [start_plan(planner, workspaces, "ann", ".") for _ in range(20)]
    async with asyncio.timeout(30):
        await start_plan(planner, workspaces, "bob", "b.json")
        assert await asyncio.to_thread(slow_listing.are_many.wait, 20)
        slow_listing.may_end.set()
        await asyncio.gather(*slow)
    assert slow_listing.most == MAX_LISTINGS


async def test_listing_ends_with_its_statement(workspaces, slow_listing):  # 5
    planner = ScanPlanner(make_workspace_reads(), lambda known, discovered: None)
    slow = start_plan(planner, workspaces, "ann", ".")
    assert await asyncio.to_thread(slow_listing.has_begun.wait, 20)
    slow.cancel()
    assert await asyncio.to_thread(slow_listing.has_ended.wait, 20)
    assert not slow_listing.may_end.is_set()
