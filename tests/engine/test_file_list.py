"""The list of files in a plan."""

import pickle
import tracemalloc
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import ScanOptionError
from engine.file_list import FILES, pack_files, unpack_files
from engine.file_scan.file_scan import FileScan
from engine.file_scan.partitions import plan_partitions
from engine.schema import TupleSchema
from engine.spark import ScanReader
from engine.spark_discovery import DiscoveryReader
from engine.spark_schema import to_spark_schema
from engine.storage.listed_file import ListedFile

LISTS = st.lists(st.builds(ListedFile, st.text(), st.integers(min_value=0, max_value=2**63), st.text()))

COUNT = 10_000
MOST_BYTES_OF_FILE = 1000


@given(LISTS)
def test_list_is_unpacked_as_it_was(files):
    assert unpack_files(pack_files(files)) == files


def test_long_list_is_small():
    files = [ListedFile(f"logs/2026/11/{number:06}.json", 1234, "1795436125000000000") for number in range(100_000)]
    assert len(pack_files(files)) < 1024 * 1024


@pytest.mark.parametrize("text", ["", "x", "AAAA", pack_files([])[:-4], "eJyrVoouAgAC8AEt", "eJwDAAAAAAE="])
def test_other_text_is_refused(text):
    with pytest.raises(ScanOptionError, match="is not a list of files that Lodge wrote"):
        unpack_files(text)


def test_planning_many_files_needs_little_memory(workspace):
    for number in range(COUNT):
        workspace.write(f"{number // 100}/{number}.json", "{}\n")
    options = workspace.scan(".").to_options(reader={}, mentioned=None)
    tracemalloc.start()
    try:
        listed = FileScan.from_options(options).list_files()
        planned = FileScan.from_options({**options, FILES: pack_files(listed)})
        tasks = plan_partitions(planned)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert sum(len(files) for files in tasks) == COUNT
    assert len(tasks) < COUNT / 100
    assert peak_bytes < COUNT * MOST_BYTES_OF_FILE


@pytest.mark.parametrize("kind", ["scan", "discovery"])
def test_tasks_get_only_their_files(workspace, kind):
    """Spark sends the reader to each task. Unpickling the list of all files would take longer than many tasks."""
    for number in range(8):
        workspace.write(f"{number}.json", "{}\n")
    scan = FileScan.from_options(workspace.scan(".").to_options(reader={}))
    planned = replace(scan, listed=scan.list_files())
    reader = DiscoveryReader(planned)
    if kind == "scan":
        reader = ScanReader(planned, to_spark_schema(TupleSchema()), is_declared=False)
    before = pickle.dumps(reader)  # Spark does so before it asks for the partitions
    files = b"".join(pickle.dumps(partition) for partition in reader.partitions())
    assert all(b"%d.json" % number in files for number in range(8))
    assert b".json" not in before + pickle.dumps(reader)
