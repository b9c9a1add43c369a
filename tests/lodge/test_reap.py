import json
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from lodge.reap import pass_period_seconds
from lodge.settings import ReapSettings
from tests.cluster.processes import DIES_WITH_PARENT
from tests.fixture_types import Eventually
from tests.own_mounts import run
from tests.records import a_record
from tests.workspace.in_memory_root_ids import InMemoryRootIds
from workspace.files.session_locations import FileSessionLocations
from workspace.files.session_records import FileSessionRecords
from workspace.identifiers import ReplicaId, SessionUuid


@pytest.mark.parametrize(
    ("lease", "grace", "period_seconds"), [("15s", "60s", 5), ("1s", "100ms", 0.2), ("5m", "1h", 10), ("9s", "3s", 1)]
)
def test_pass_period_is_a_third_of_the_shorter_duration(lease: str, grace: str, period_seconds: float) -> None:
    settings = ReapSettings.model_validate({"lease_duration": lease, "grace_period": grace})
    assert pass_period_seconds(settings) == pytest.approx(period_seconds)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_orphan_is_removed_and_a_signal_stops_the_reaper(
    lodge: Any, tmp_path: Path, eventually: Eventually, number: signal.Signals
) -> None:
    root = tmp_path / "tmp"
    locations = FileSessionLocations(root)
    locations.initialise()
    orphan = locations.create(SessionUuid(str(uuid.uuid4())))
    (orphan / "data").write_text("data")
    log = tmp_path / "log"
    process = lodge.start("reap", f"--workspace=dfs.tmp={root.as_uri()}", "--grace-period=300ms", log=log)
    eventually(lambda: not orphan.exists(), "the orphan is gone")
    eventually(lambda: "orphan_location_deleted" in log.read_text(), "the log shows it")
    process.send_signal(number)
    assert process.wait(120) == 0
    assert "reaper_stopped" in log.read_text()
    assert "Traceback" not in log.read_text()


def test_read_only_workspace_is_one_line(lodge: Any, tmp_path: Path) -> None:
    (tmp_path / ".lodge").write_text("a file in the place of a directory")
    done = lodge.run("reap", f"--workspace=dfs.tmp={tmp_path.as_uri()}")
    assert done.returncode == 1
    assert done.stderr.startswith("lodge: The workspace [dfs.tmp] cannot be used: ")
    assert done.stderr.count("\n") == 1


def test_reaper_with_other_records_names_the_owner_and_deletes_nothing(lodge: Any, tmp_path: Path) -> None:
    root, root_ids = tmp_path / "tmp", InMemoryRootIds()
    locations = FileSessionLocations(root, root_ids=root_ids)
    locations.initialise()
    location = locations.create(SessionUuid(str(uuid.uuid4())))
    done = lodge.run("reap", f"--workspace=dfs.tmp={root.as_uri()}", "--grace-period=100ms")
    assert done.returncode == 1
    assert done.stderr.startswith(f"lodge: The workspace [dfs.tmp] cannot be used: The root [{root}] belongs to ")
    assert root_ids.records in done.stderr
    assert f"remove [{root}/.lodge/records]" in done.stderr
    assert done.stderr.count("\n") == 1
    assert location.exists()


def reaping(lodge: Any, root: Path, log: Path, *options: str) -> Any:
    """Start a reaper of sessions without a holder, which has no lease to wait for."""
    return lodge.start("reap", f"--workspace=dfs.tmp={root.as_uri()}", "--grace-period=300ms", *options, log=log)


def lines(log: Path, event: str) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
    return [line for line in found if line["event"] == event]


def abandoned_sessions(root: Path, count: int) -> FileSessionLocations:
    """Create sessions without a holder, each with a location."""
    locations = FileSessionLocations(root)
    locations.initialise()
    for number in range(count):
        record = a_record(number, backend="sc://127.0.0.1:1")
        FileSessionRecords(root).create(record)
        locations.create(record.session_uuid)
    return locations


def test_mass_expiry_waits_for_the_token_in_a_file(lodge: Any, tmp_path: Path, eventually: Eventually) -> None:
    root, log = tmp_path / "tmp", tmp_path / "log"
    locations = abandoned_sessions(root, 5)
    options = ("--mass-expiry-share=0.5", "--mass-expiry-minimum=5", "--metrics-listen=127.0.0.1:0")
    reaping(lodge, root, log, *options)
    eventually(lambda: lines(log, "reaper_held_back"), "the reaper warns")
    (warning,) = lines(log, "reaper_held_back")
    address = lines(log, "reaper_metrics_served")[0]["address"]
    with urllib.request.urlopen(f"http://{address}/readyz", timeout=60) as answer:
        assert warning["confirm_with"] in answer.read().decode()
    assert len(locations.list()) == 5
    (root / ".lodge" / "confirm-mass-expiry").write_text(f"{warning['confirm_with']}\n")
    eventually(lambda: not locations.list(), "the sessions are ended")
    eventually(lambda: not FileSessionRecords(root).list(), "their records are gone")


def test_late_writes_to_a_removed_location_are_removed_again(
    lodge: Any, tmp_path: Path, eventually: Eventually
) -> None:
    root, log = tmp_path / "tmp", tmp_path / "log"
    locations = abandoned_sessions(root, 1)
    (session_uuid,) = locations.list()
    writer = (
        "import pathlib, sys, time\n"
        "while True:\n"
        "    try:\n"
        "        directory = pathlib.Path(sys.argv[1], 'table')\n"
        "        directory.mkdir(parents=True, exist_ok=True)\n"
        "        directory.joinpath(str(time.monotonic_ns())).write_text('data')\n"
        "        time.sleep(0.01)\n"
        "    except OSError:\n"
        "        pass\n"
    )
    writing = subprocess.Popen([sys.executable, "-c", writer, str(locations.path(session_uuid))])
    try:
        reaping(lodge, root, log)
        eventually(lambda: lines(log, "session_location_deleted"), "the session is ended")
        eventually(lambda: len(lines(log, "orphan_location_deleted")) >= 2, "later files are removed again")
    finally:
        writing.kill()
        writing.wait()
    eventually(lambda: not locations.list() and not locations.trash(), "nothing is left at the end")


def test_large_location_does_not_delay_another(lodge: Any, tmp_path: Path, eventually: Eventually) -> None:
    root, log = tmp_path / "tmp", tmp_path / "log"
    locations = abandoned_sessions(root, 2)
    large, small = sorted(locations.list())
    for directory in range(5):
        table = locations.path(large) / str(directory)
        table.mkdir()
        for file in range(1000):
            (table / str(file)).touch()
    reaping(lodge, root, log, "--removals=1")
    eventually(lambda: not locations.list(), "both are in the trash")
    eventually(lambda: not locations.trash(), "both are purged")
    assert {line["session"] for line in lines(log, "session_reaped")} == {large, small}


def test_unusable_metrics_address_is_one_line(lodge: Any, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        done = lodge.run("reap", f"--workspace=dfs.tmp={tmp_path.as_uri()}", f"--metrics-listen={address}")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith(f"lodge: Cannot listen on [{address}]: ")
    assert "Traceback" not in done.stderr


@pytest.mark.needs_root
def test_session_survives_storage_that_fails_for_its_gateway_only(
    lodge: Any, tmp_path: Path, eventually: Eventually
) -> None:
    root, log, gateway_log = tmp_path / "tmp", tmp_path / "log", tmp_path / "gateway-log"
    root.mkdir()
    times = ("--lease-duration=1s", f"--workspace=dfs.tmp={root.as_uri()}")
    with private_mount_of(
        root, "serve", "--no-reaper", "--backend=sc://127.0.0.1:1", *times, log=gateway_log
    ) as gateway:
        eventually(lambda: lines(gateway_log, "gateway_started"), "the gateway runs")
        replica = ReplicaId(lines(gateway_log, "gateway_started")[0]["replica"])
        record = a_record(1, backend="sc://127.0.0.1:1", holders=frozenset({replica}))
        FileSessionRecords(root).create(record)
        locations = FileSessionLocations(root)
        location = locations.create(record.session_uuid)
        run("nsenter", f"--target={gateway.pid}", "--mount", "--", "mount", "-o", "remount,bind,ro", root)
        reaping(lodge, root, log, "--lease-duration=1s")
        eventually(lambda: lines(log, "silent_replica_runs"), "the reaper notices that the gateway runs")
        orphan = locations.create(SessionUuid(str(uuid.uuid4())))
        eventually(lambda: not orphan.exists(), "grace periods end")
        assert location.exists()
        assert len(FileSessionRecords(root).list()) == 1
    eventually(lambda: not location.exists(), "the session of the dead gateway is ended")


@contextmanager
def private_mount_of(root: Path, *arguments: str, log: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """Run ``lodge`` with a mount of a directory that other processes do not see."""
    mount = 'mount --bind "$0" "$0" && exec "$@"'
    command = ["unshare", "--mount", "--propagation", "private", "sh", "-c", mount, str(root)]
    with log.open("wb") as errors:
        process = subprocess.Popen(
            [*DIES_WITH_PARENT, *command, sys.executable, "-m", "lodge", *arguments],
            cwd=root.parent,
            stdout=subprocess.DEVNULL,
            stderr=errors,
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def test_reaper_continues_with_the_home_that_is_at_its_path(lodge: Any, tmp_path: Path, eventually: Eventually) -> None:
    root, log, away = tmp_path / "tmp", tmp_path / "log", tmp_path / "away"
    locations = abandoned_sessions(root, 1)
    root.rename(away)
    root.mkdir()  # the reaper creates a home there
    reaping(lodge, root, log)
    eventually(lambda: lines(log, "reaper_started"), "it starts with the wrong home")
    root.rename(tmp_path / "wrong")
    away.rename(root)
    eventually(lambda: lines(log, "reaper_followed_home"), "it notices the true home")
    eventually(lambda: not locations.list(), "it reaps in the true home")


def test_probes_report_missing_storage(lodge: Any, tmp_path: Path, eventually: Eventually) -> None:
    root, log = tmp_path / "tmp", tmp_path / "log"
    locations = abandoned_sessions(root, 1)
    reaping(lodge, root, log, "--metrics-listen=[::1]:0", "--grace-period=1h")
    eventually(lambda: lines(log, "reaper_metrics_served"), "it listens")
    address = lines(log, "reaper_metrics_served")[0]["address"]

    def get(path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://{address}{path}", timeout=60) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    eventually(lambda: get("/readyz") == (200, "acting\n"), "it is ready")
    (root / ".lodge").rename(tmp_path / "elsewhere")
    eventually(lambda: get("/readyz")[0] == 503, "it is not ready")
    assert "root: " in get("/readyz")[1]
    assert get("/healthz") == (200, "ok\n")
    assert get("/nothing")[0] == 404
    (tmp_path / "elsewhere").rename(root / ".lodge")
    eventually(lambda: get("/readyz")[0] == 200, "it is ready again")
    eventually(lambda: "lodge_reaper_sessions 1.0" in get("/metrics")[1], "a pass counts the session")
    assert len(locations.list()) == 1
