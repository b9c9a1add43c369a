"""Reload of settings, and a default temporary workspace that moves [temporary-tables §5.1.5]."""

import json
import os
import re
import signal
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from gateway.errors import storage_unavailable
from lodge.configuration import Configuration
from lodge.settings import ServeSettings
from lodge.workspace_settings import workspaces_from
from tests.cluster.processes import children_of, is_running
from tests.fixture_types import Eventually
from tests.lodge.conftest import lodge_in
from tests.records import a_record
from tests.watched import gateway_of
from workspace.files.roots import home_of
from workspace.files.session_locations import FileSessionLocations
from workspace.files.session_records import FileSessionRecords
from workspace.identifiers import SessionUuid

SESSION = SessionUuid("00000000-0000-4000-8000-000000000001")
SHORT_GRACE = "--grace-period=300ms"
"""For reapers of sessions without a holder. The lease of the gateway is as long as by default."""


class Serving:
    """A ``lodge serve`` with a configuration file and without Spark."""

    def __init__(self, lodge: Any, directory: Path, eventually: Eventually) -> None:
        self._lodge = lodge
        self._eventually = eventually
        self.config = directory / "lodge.yaml"
        self.log_file = directory / "log"
        self.first, self.second = directory / "first", directory / "second"
        for root in (self.first, self.second):
            root.mkdir()

    def write(self, root: Path, *lines: str) -> None:
        content = ["backend: [sc://127.0.0.1:1]", f"workspace: {{dfs.tmp: '{root.as_uri()}'}}", *lines]
        self.config.write_text("\n".join(content))

    def start(self, *options: str) -> Any:
        self.process = self._lodge.start(
            "serve", f"--config={self.config}", "--listen=127.0.0.1:0", *options, log=self.log_file
        )
        assert re.match("Lodge is ready", self.process.stdout.readline()), self.log_file.read_text()
        return self.process

    def reload(self, expected: str) -> dict[str, Any]:
        """Send SIGHUP and return the next log line of this event."""
        count = len(self.lines(expected))
        self.process.send_signal(signal.SIGHUP)
        self._eventually(lambda: len(self.lines(expected)) > count, f"{expected} is logged")
        return self.lines(expected)[-1]

    def lines(self, event: str) -> list[dict[str, Any]]:
        return lines_of(self.log_file, event)


def lines_of(log: Path, event: str) -> list[dict[str, Any]]:
    """Return the log lines of this event that are completely written."""
    whole = [line for line in log.read_text().splitlines(keepends=True) if line.endswith("\n")]
    lines = [json.loads(line) for line in whole if line.startswith("{")]
    return [line for line in lines if line["event"] == event]


@pytest.fixture
def serving(lodge: Any, tmp_path: Path, eventually: Eventually) -> Serving:
    return Serving(lodge, tmp_path, eventually)


@pytest.fixture(scope="module")
def shared_serving(tmp_path_factory: pytest.TempPathFactory, eventually: Eventually) -> Iterator[Serving]:
    """A running gateway, for tests that restore its settings."""
    directory = tmp_path_factory.mktemp("serving")
    with lodge_in(directory) as lodge:
        serving = Serving(lodge, directory, eventually)
        serving.write(serving.first)
        serving.start("--no-reaper")
        yield serving


@pytest.mark.slow
def test_temporary_workspace_moves_and_keeps_its_home(serving: Serving) -> None:
    serving.write(serving.first)
    serving.start("--no-reaper")
    serving.write(serving.second, "writable_workspace: dfs.tmp")
    line = serving.reload("configuration_reloaded")
    assert line["level"] == "info"
    assert line["changed"] == [
        f"workspace [dfs.tmp]: {serving.first.as_uri()} (writable) -> {serving.second.as_uri()} (writable)"
    ]
    assert home_of(serving.second) == serving.first
    assert len(list((serving.first / ".lodge" / "leases").iterdir())) == 1
    assert not list((serving.second / ".lodge" / "leases").iterdir())
    assert serving.reload("configuration_reloaded")["changed"] == []
    serving.process.send_signal(signal.SIGTERM)
    assert serving.process.wait(120) == 0
    serving.start("--no-reaper")
    assert len(list((serving.first / ".lodge" / "leases").iterdir())) == 1, "a start follows the pointer to the home"
    assert "Traceback" not in serving.log_file.read_text()


def test_other_workspaces_can_be_added_removed_and_made_writable(serving: Serving) -> None:
    serving.write(serving.first)
    serving.start("--no-reaper")
    more = f"workspace: {{dfs.tmp: '{serving.first.as_uri()}', a: '{serving.second.as_uri()}'}}"
    serving.config.write_text(f"backend: [sc://127.0.0.1:1]\n{more}\nwritable_workspace: [a]\n")
    changed = serving.reload("configuration_reloaded")["changed"]
    assert changed == [f"workspace [a]: none -> {serving.second.as_uri()} (writable)"]
    serving.config.write_text(f"backend: [sc://127.0.0.1:1]\n{more}\n")
    changed = serving.reload("configuration_reloaded")["changed"]
    assert changed == [f"workspace [a]: {serving.second.as_uri()} (writable) -> {serving.second.as_uri()}"]


def test_reload_is_recorded_in_a_rotated_audit_log(serving: Serving, eventually: Eventually) -> None:
    audit = serving.config.with_name("audit.log")
    serving.write(serving.first, f"audit_log: {audit}")
    serving.start("--no-reaper")
    rotated = audit.rename(audit.with_suffix(".1"))
    serving.write(serving.first, f"audit_log: {audit}", "writable_workspace: dfs.tmp")
    serving.reload("configuration_reloaded")
    eventually(lambda: audit.exists() and audit.read_text(), "the new file contains the event")
    serving.config.write_text("unknown: 1")
    serving.reload("configuration_rejected")
    eventually(lambda: len(audit.read_text().splitlines()) == 2, "the new file contains both events")
    first, second = map(json.loads, audit.read_text().splitlines())
    assert rotated.read_text() == ""
    common = {"event": "administrative_act", "act": "reload_configuration"}
    assert first.items() >= {**common, "outcome": "succeeded"}.items()
    assert second.items() >= {**common, "outcome": "failed"}.items()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("content", "named"),
    [
        ("workspace: {dfs.tmp: 'file:///does/not/exist'}", "/does/not/exist"),
        ("workspace: {other: 'file:///'}", "[dfs.tmp] is not among the workspaces [other]"),
        ("writable_workspace: [other]", "[other] is not among the workspaces"),
        ("grace_period: soon", "The value [soon] of the setting grace_period is not valid"),
        ("workspace: [", "is not valid YAML"),
        ("unknown: 1", "[unknown]"),
    ],
)
def test_unusable_settings_are_rejected_as_a_whole(shared_serving: Serving, content: str, named: str) -> None:
    serving = shared_serving
    serving.write(serving.first)
    good = serving.config.read_text()
    serving.config.write_text(content if content.startswith("workspace") else f"{good}\n{content}\n")
    line = serving.reload("configuration_rejected")
    assert line["level"] == "error"
    assert named in line["reason"]
    serving.config.write_text(good)
    assert serving.reload("configuration_reloaded")["changed"] == []
    assert serving.process.poll() is None


async def test_storage_that_does_not_respond_rejects_the_reload(tmp_path: Path) -> None:
    settings = ServeSettings(workspace={"dfs.tmp": tmp_path.as_uri()}, backend=("sc://127.0.0.1:1",))
    configuration = Configuration(settings, workspaces_from(settings), lambda: settings)

    async def fail(*_: object) -> None:
        raise storage_unavailable("session locations")

    with capture_logs() as logs:
        assert await configuration.reload(fail) is None
    assert [line["event"] for line in logs] == ["configuration_rejected"]


def test_root_of_another_lodge_is_rejected(serving: Serving) -> None:
    serving.write(serving.first)
    serving.start("--no-reaper")
    FileSessionLocations(serving.second).initialise()
    FileSessionRecords(serving.second).create(a_record(backend="sc://127.0.0.1:1"))
    serving.write(serving.second)
    assert "another Lodge" in serving.reload("configuration_rejected")["reason"]
    assert home_of(serving.second) == serving.second


def test_settings_that_need_a_restart_are_logged_and_unchanged(serving: Serving) -> None:
    serving.write(serving.first)
    serving.start("--no-reaper")
    serving.write(
        serving.second,
        "default_temporary_workspace: other",
        "grace_period: 7s",
        "listen: 127.0.0.1:1",
        "log_level: debug",
    )
    serving.reload("configuration_reloaded")
    (line,) = serving.lines("settings_need_restart")
    assert line["level"] == "warning"
    assert line["settings"] == ["default_temporary_workspace", "grace_period", "log_level"], "an option wins for listen"
    assert home_of(serving.second) == serving.first


@pytest.mark.slow
@pytest.mark.parametrize("known", ["old", "new"])
def test_reaper_finds_a_new_root_by_itself(
    serving: Serving, lodge: Any, tmp_path: Path, eventually: Eventually, *, known: str
) -> None:
    """A reaper that starts with the new root before any gateway moves there finds it too."""
    log = tmp_path / "reaper.log"
    root = serving.first if known == "old" else serving.second
    reap = ("reap", f"--workspace=dfs.tmp={root.as_uri()}", SHORT_GRACE)
    serving.write(serving.first)
    serving.start("--no-reaper")
    reaper = lodge.start(*reap, log=log)
    eventually(lambda: "reaper_started" in log.read_text(), "the reaper works")
    serving.write(serving.second)
    serving.reload("configuration_reloaded")
    locations = FileSessionLocations(serving.second, serving.first)
    record = a_record(backend="sc://127.0.0.1:2")  # no gateway adopts it
    reaper.send_signal(signal.SIGSTOP)  # it must not end the session before the session has a location
    FileSessionRecords(serving.first).create(record)
    kept = locations.create(record.session_uuid)
    reaper.send_signal(signal.SIGCONT)
    orphan = locations.create(SessionUuid(str(uuid.uuid4())))
    eventually(lambda: not orphan.exists(), "the orphan is gone")
    if known == "new":
        assert "reaper_followed_home" in log.read_text()
    eventually(lambda: not kept.exists(), "a session without a holder is ended")
    assert reaper.poll() is None
    eventually(
        lambda: str(kept) in {line["location"] for line in lines_of(log, "session_location_deleted")},
        "the reaper logs the deletion, after the location is in the trash",
    )
    assert "Traceback" not in log.read_text()


@pytest.mark.slow
def test_gateway_that_is_replaced_uses_the_reloaded_settings(serving: Serving, eventually: Eventually) -> None:
    def replace_gateway() -> None:
        os.kill(gateway_of(serving.process.pid), signal.SIGKILL)

    serving.write(serving.first)
    serving.start("--no-reaper")
    serving.write(serving.second, "lease_duration: 40s")
    serving.reload("configuration_reloaded")
    assert serving.lines("settings_need_restart")[-1]["settings"] == ["lease_duration"]
    replace_gateway()
    eventually(lambda: len(serving.lines("gateway_started")) == 2, "the gateway is replaced")
    assert serving.reload("configuration_reloaded")["changed"] == []
    assert serving.lines("settings_need_restart")[-1]["settings"] == ["lease_duration"], "it kept its value"

    serving.config.write_text("workspace: [")
    replace_gateway()
    eventually(lambda: len(serving.lines("gateway_started")) == 3, "a gateway uses the settings that worked")
    eventually(lambda: serving.lines("configuration_rejected"), "it has tried the reload again")
    serving.write(serving.second)
    assert serving.reload("configuration_reloaded")["changed"] == [], "it knows the new root"


@pytest.mark.slow
def test_restart_with_only_the_new_root_cleans_up_both_roots(serving: Serving, eventually: Eventually) -> None:
    serving.write(serving.first)
    serving.start(SHORT_GRACE)
    eventually(lambda: serving.lines("reaper_started"), "the reaper works")
    serving.write(serving.second)
    serving.reload("configuration_reloaded")
    record = a_record(backend="sc://127.0.0.1:2")  # no gateway adopts it
    children = children_of(serving.process.pid)
    serving.process.kill()
    serving.process.wait(120)
    eventually(lambda: not any(is_running(child) for child in children), "the kernel has killed the reaper too")
    FileSessionRecords(serving.first).create(record)
    for root in (serving.first, serving.second):
        FileSessionLocations(root, serving.first).create(record.session_uuid)
    serving.start(SHORT_GRACE)
    for root in (serving.first, serving.second):
        eventually(lambda root=root: [path.name for path in root.iterdir()] == [".lodge"], f"{root} is empty")
    eventually(lambda: len(serving.lines("session_location_deleted")) == 2, "the reaper logs both deletions")
    deleted = [line["message"] for line in serving.lines("session_location_deleted")]
    assert sorted(deleted) == [
        f"Deleted session temporary location [{root / record.session_uuid}] from file system [file:///]"
        for root in (serving.first, serving.second)
    ]


@pytest.mark.slow
def test_missing_root_is_a_hold_that_names_it(
    serving: Serving, lodge: Any, tmp_path: Path, eventually: Eventually
) -> None:
    locations = FileSessionLocations(serving.first)
    locations.initialise()
    locations.set_current_root(serving.second)
    locations.set_current_root(serving.first)
    orphan = locations.create(SESSION)
    aside = serving.second.rename(tmp_path / "aside")
    log = tmp_path / "reaper.log"
    options = (f"--workspace=dfs.tmp={serving.first.as_uri()}", SHORT_GRACE)
    lodge.start("reap", *options, log=log)
    eventually(lambda: "reaper_held_back" in log.read_text(), "the reaper is on hold")
    begun = time.monotonic()
    eventually(lambda: time.monotonic() - begun > 3, "ten grace periods have passed")
    assert log.read_text().count("reaper_held_back") == 1
    assert str(serving.second) in log.read_text()
    assert "remove [" in log.read_text()
    assert orphan.exists()
    aside.rename(serving.second)
    eventually(lambda: not orphan.exists(), "the reaper resumes")
