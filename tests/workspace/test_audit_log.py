"""The audit log: its lines, its files and what happens if they cannot be written."""

import errno
import json
import os
import re
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from workspace import audit_log
from workspace.audit_log import AuditLog

FORGERIES = [
    'ada\n{"event": "forged"}',
    'ada\r{"event": "forged"}',
    "ada\u2028forged",
    "ada\u2029forged",
    "ada\x85forged",
    "ada\x0b\x0c\x1b[2Jforged",
    "ada\x00forged",
    "ada\ud800forged",
    'ada", "event": "forged',
    "ada\x7f",
]


DEADLINE_SECONDS = 60


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def wait_for(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "the condition did not become true"
        time.sleep(0.01)


@pytest.mark.parametrize("value", FORGERIES)
def test_no_value_forges_a_line(tmp_path: Path, value: str) -> None:
    log = AuditLog(str(tmp_path / "audit"))
    log.write("login_failed", {"principal": value, "tables": [value], value: "a name of a field"})
    log.close()
    written = (tmp_path / "audit").read_bytes()
    assert re.fullmatch(rb"[\x20-\x7e]+\n", written)
    event = json.loads(written)
    assert (event["event"], event["principal"], event["tables"]) == ("login_failed", value, [value])


@settings(max_examples=25, deadline=None)
@given(value=st.text(st.characters(codec=None, exclude_categories=())))
def test_any_text_is_one_line_of_printable_ascii(tmp_path_factory: pytest.TempPathFactory, value: str) -> None:
    path = tmp_path_factory.mktemp("log") / "audit"
    log = AuditLog(str(path))
    log.write("statement_finished", {"query_text": value})
    log.close()
    assert re.fullmatch(rb"[\x20-\x7e]+\n", path.read_bytes())
    assert json.loads(path.read_text()).get("query_text", "") == value


def test_fields_have_a_maximum_length(tmp_path: Path) -> None:
    log = AuditLog(str(tmp_path / "audit"))
    log.write("login_failed", {"reason": "x" * 2_000, "tables": ["t" * 2_000] * 200, "query_text": "q" * 20_000})
    log.close()
    (event,) = lines(tmp_path / "audit")
    assert event["reason"] == "x" * 1024 + "... (2000 characters)"
    assert event["query_text"] == "q" * 16_384 + "... (20000 characters)"
    assert len(event["tables"]) == 101
    assert event["tables"][-1] == "... (200 in total)"


def test_fields_without_a_value_are_left_out(tmp_path: Path) -> None:
    log = AuditLog(str(tmp_path / "audit"))
    log.write("login_failed", {"principal": "", "groups": (), "peer": None, "count": 0, "adopted": False})
    log.close()
    (event,) = lines(tmp_path / "audit")
    assert event.keys() == {"timestamp", "event", "count", "adopted"}
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}\+00:00", event["timestamp"])


def test_events_keep_their_order(tmp_path: Path) -> None:
    log = AuditLog(str(tmp_path / "audit"))
    for number in range(1_000):
        log.write("statement_finished", {"number": number})
    log.close()
    assert [event["number"] for event in lines(tmp_path / "audit")] == list(range(1_000))


def test_new_file_is_private(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        AuditLog(str(tmp_path / "audit")).close()
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "audit").stat().st_mode) == 0o600


def test_existing_file_is_continued_on_a_new_line(tmp_path: Path) -> None:
    (tmp_path / "audit").write_text('{"event": "cut o')
    log = AuditLog(str(tmp_path / "audit"))
    log.write("login_failed", {})
    log.close()
    first, second = (tmp_path / "audit").read_text().splitlines()
    assert first == '{"event": "cut o'
    assert json.loads(second)["event"] == "login_failed"


@pytest.mark.parametrize("with_signal", [True, False])
def test_moved_file_is_replaced(tmp_path: Path, with_signal: bool) -> None:
    log = AuditLog(str(tmp_path / "audit"))
    log.write("login_failed", {"number": 1})
    wait_for(lambda: (tmp_path / "audit").stat().st_size)
    (tmp_path / "audit").rename(tmp_path / "audit.1")
    if with_signal:
        log.reopen()
    log.write("login_failed", {"number": 2})
    log.close()
    assert [event["number"] for event in lines(tmp_path / "audit.1")] == [1]
    assert [event["number"] for event in lines(tmp_path / "audit")] == [2]


def test_unwritable_file_is_reported_and_written_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_log, "_RETRY_SECONDS", 0.01)
    directory = tmp_path / "logs"
    directory.mkdir()
    log = AuditLog(str(directory / "audit"))
    (directory / "audit").unlink()
    directory.rename(tmp_path / "away")
    with capture_logs() as logged:
        log.write("login_failed", {"number": 1})
        wait_for(lambda: logged)
    (tmp_path / "away").rename(directory)
    log.write("login_failed", {"number": 2})
    log.close()
    assert [(each["event"], each["log_level"]) for each in logged] == [("audit_log_failed", "error")]
    assert [event["number"] for event in lines(directory / "audit")] == [1, 2]
    assert log.lost_events == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_full_disk_blocks_nobody_and_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_log, "_RETRY_SECONDS", 1000.0)
    monkeypatch.setattr(audit_log, "_MAX_WAITING_EVENTS", 1000)
    monkeypatch.setattr(audit_log, "_REPORT_SECONDS", 0.0)  # whichever report comes first must not delay the other
    log = AuditLog("/dev/full")
    with capture_logs() as logged:
        for number in range(audit_log._MAX_WAITING_EVENTS + 100):
            log.write("login_failed", {"number": number})
        wait_for(lambda: {"audit_log_failed"} <= {each["event"] for each in logged})
        assert log.lost_events >= 90
        log.close(DEADLINE_SECONDS)
    assert logged[-1]["event"] == "audit_events_lost"
    assert logged[-1]["count"] == audit_log._MAX_WAITING_EVENTS + 100
    assert any("No space left on device" in each.get("reason", "") for each in logged)


def test_number_of_lost_events_is_written_when_possible(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_log, "_MAX_WAITING_EVENTS", 2)
    log = AuditLog(str(tmp_path / "audit"))
    free = threading.Event()
    started = threading.Event()
    log.run(lambda: (started.set(), free.wait(DEADLINE_SECONDS))[0])  # type: ignore[func-returns-value]
    assert started.wait(DEADLINE_SECONDS)
    with capture_logs() as logged:
        for number in range(5):
            log.write("login_failed", {"number": number})
    free.set()
    log.close()
    assert [(event["event"], event.get("number"), event.get("count")) for event in lines(tmp_path / "audit")] == [
        ("audit_events_lost", None, 3),
        ("login_failed", 0, None),
        ("login_failed", 1, None),
    ]
    assert [each["event"] for each in logged] == ["audit_events_lost"]
    assert log.lost_events == 3


def test_incomplete_write_does_not_merge_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_log, "_RETRY_SECONDS", 0.01)
    log = AuditLog(str(tmp_path / "audit"))
    write, failures = os.write, iter([False, True])

    def write_a_part(descriptor: int, data: bytes) -> int:
        match next(failures, None):
            case False:
                return write(descriptor, bytes(data)[:10])
            case True:
                raise OSError(28, "No space left on device")
            case _:
                return write(descriptor, data)

    monkeypatch.setattr(os, "write", write_a_part)
    log.write("login_failed", {"number": 1})
    wait_for(lambda: (tmp_path / "audit").read_bytes().endswith(b"}\n"))
    log.close()
    incomplete, complete = (tmp_path / "audit").read_text().splitlines()
    assert len(incomplete) == 10
    assert json.loads(complete)["number"] == 1


def test_file_that_cannot_be_opened_is_refused_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        AuditLog(str(tmp_path / "missing" / "audit"))


def test_full_disk_prevents_no_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last line is incomplete, and there is no space to end it."""
    (path := tmp_path / "audit.log").write_text('{"event"')
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", mock.Mock(side_effect=OSError(errno.ENOSPC, "No space left on device")))
        log = AuditLog(str(path))
    log.write("session_opened", {})
    log.close()
    assert [json.loads(line)["event"] for line in path.read_text().splitlines()[1:]] == ["session_opened"]


def test_log_without_destination_runs_no_thread() -> None:
    threads = set(threading.enumerate())
    log = AuditLog()
    log.write("login_failed", {})
    assert set(threading.enumerate()) <= threads
    log.close()
    assert not log.is_enabled


def test_pipe_that_nobody_reads_does_not_block() -> None:
    program = (
        "from workspace.audit_log import AuditLog\n"
        "log = AuditLog('-')\n"
        "for number in range(2_000):\n"
        "    log.write('login_failed', {'reason': 'x' * 100})\n"
        "log.close(0.5)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.wait(DEADLINE_SECONDS) == 0, process.stderr.read() if process.stderr else ""
