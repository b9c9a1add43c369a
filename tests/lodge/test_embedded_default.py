"""The embedded default with a real local Spark; one at a time."""

import json
import os
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pyarrow as pa
import pyspark
import pytest
from pyspark.sql.connect.session import SparkSession

from lodge.command_errors import StartError
from lodge.embedded_spark import embedded_spark
from tests.cluster.processes import children_of, is_running
from tests.fixture_types import Eventually
from tests.quick_java import QUICK_JAVA_OPTIONS
from tests.watched import gateway_of

READY = re.compile(r"Lodge is ready at (sc://127\.0\.0\.1:\d+)\n")
ARGUMENTS = ("serve", "--listen=127.0.0.1:0", "--spark-driver-memory=1g")
JAVA = {"JDK_JAVA_OPTIONS": QUICK_JAVA_OPTIONS}
"""Variables for Spark."""


def processes_of(marker: Path) -> set[int]:
    """Return the processes whose command line contains the path."""
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if str(marker).encode() in (process / "cmdline").read_bytes():
                found.add(int(process.name))
        except OSError:
            continue
    return found


def assert_only_lodge_may_connect(log: str, children: set[int]) -> None:
    """Check guarantee 5 of :mod:`lodge.embedded_spark`."""
    address = next(json.loads(line)["address"] for line in log.splitlines() if '"embedded_spark_started"' in line)
    with grpc.insecure_channel(address.removeprefix("sc://")) as channel, pytest.raises(grpc.RpcError) as refused:
        channel.unary_unary("/spark.connect.SparkConnectService/GetStatus")(b"", timeout=30)
    assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED
    environments = [Path(f"/proc/{pid}/environ").read_bytes() for pid in children]
    tokens = {found[1] for each in environments if (found := re.search(rb"AUTHENTICATE_TOKEN=([^\0]+)", each))}
    assert len(tokens) == 1
    token = tokens.pop()
    assert len(token) >= 32
    assert token.decode() not in log
    assert not processes_of(Path(token.decode())), "the token is visible in the list of processes"


def file_of_pyspark(address: str) -> str:
    """Return the file from which Spark's Python processes import PySpark."""

    def find(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            yield pa.RecordBatch.from_pydict({"file": [sys.modules["pyspark"].__file__]})

    session = SparkSession.builder.remote(f"{address}/").create()
    ((file,),) = session.range(1).mapInArrow(find, "file string").collect()
    session.stop()
    return str(file)


@pytest.fixture
def private(tmp_path: Path) -> Path:
    """A directory for the temporary files of the process, in which leftovers are visible."""
    path = tmp_path / "private"
    path.mkdir()
    return path


def require_tables_after_a_restart(address: str, watcher: int) -> None:
    """Check that Spark outlives a killed gateway, so that the next one has the same tables."""
    session = SparkSession.builder.remote(f"{address}/").create()
    session.sql("create temporary table t as select 7 as id")
    for number in (signal.SIGKILL, signal.SIGTERM):
        os.kill(gateway_of(watcher), number)
        assert session.sql("select * from t").collect() == [(7,)], number
    session.stop()


@pytest.mark.slow
def test_serve_leaves_nothing_behind_even_when_killed(
    lodge: Any, tmp_path: Path, private: Path, eventually: Eventually
) -> None:
    log = tmp_path / "log"
    process = lodge.start_command(*ARGUMENTS, log=log, TMPDIR=str(private), **JAVA)
    ready = READY.fullmatch(process.stdout.readline())
    assert ready, log.read_text()
    assert file_of_pyspark(ready[1]) == pyspark.__file__, "an import from Spark's pyspark.zip takes half a second more"
    started = children_of(process.pid)
    assert len(started) == 3, "a Spark, a reaper and a gateway"
    assert_only_lodge_may_connect(log.read_text(), started)
    require_tables_after_a_restart(ready[1], process.pid)
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 0, log.read_text()
    assert process.stdout.read() == "", "stdout has only one line"
    assert not any(is_running(pid) for pid in started | processes_of(private))
    assert list(lodge.directory.iterdir()) == []
    assert list(private.iterdir()) == []
    assert [path.name for path in (lodge.state / "lodge" / "dfs.tmp").iterdir()] == [".lodge"]
    text = log.read_text()
    events = ("gateway_stopped", '"event": "embedded_spark_stopped"', "lodge_stopped")
    assert [text.index(event) for event in events] == sorted(text.index(event) for event in events)
    assert "Traceback" not in text

    killed = lodge.start_command(*ARGUMENTS, log=log, TMPDIR=str(private), **JAVA)
    eventually(lambda: len(children_of(killed.pid)) >= 1 and processes_of(private), "Spark is starting")
    begun = children_of(killed.pid) | processes_of(private)
    killed.kill()
    killed.wait(10)
    eventually(lambda: not any(is_running(pid) for pid in begun), f"all of {begun} are dead")


@pytest.mark.slow
def test_serve_stops_with_status_1_when_its_spark_dies(lodge: Any, tmp_path: Path, private: Path) -> None:
    log = tmp_path / "log"
    process = lodge.start_command(*ARGUMENTS, log=log, TMPDIR=str(private), **JAVA)
    assert READY.fullmatch(process.stdout.readline()), log.read_text()
    pids = [pid for pid in children_of(process.pid) if b"java" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    assert len(pids) == 1
    os.kill(pids[0], signal.SIGKILL)
    assert process.wait(60) == 1
    text = log.read_text()
    saved = re.search(r"Its log was saved as \[(\S+)\]", text)
    assert saved
    assert Path(saved[1]).exists()
    assert "Traceback" not in text


def test_failed_start_of_spark_is_reported_with_its_log(
    private: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(private))
    with pytest.raises(StartError) as failed, embedded_spark("1k"):
        pass
    saved = re.search(r"Its log was saved as \[(\S+)\]", str(failed.value))
    assert saved
    assert Path(saved[1]).read_text().strip().endswith(str(failed.value).splitlines()[-1])
    assert [path.suffix for path in private.iterdir()] == [".log"]
