"""Recording of Events; see the guarantees of :mod:`reaper.kubernetes.events`."""

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any
from unittest import mock

import pytest
import structlog

from reaper.kubernetes.events import EventRecorder, events_for
from reaper.reports import ActionFailed
from workspace.record_store import RecordsUnavailableError

LEASE = {"name": "lodge-reaper"}


@contextmanager
def recording(*answers: Any) -> Iterator[tuple[EventRecorder, list[str]]]:
    """Provide a recorder whose API server raises these answers first, and the notes that the server has stored."""
    left, notes = iter(answers), list[str]()

    def ask(_server: object, request: Any) -> None:
        if (answer := next(left, None)) is not None:
            raise answer
        notes.append(request.args[1]["note"])

    recorder = EventRecorder(mock.Mock(), "reaper-0", lambda: LEASE)
    with mock.patch("reaper.kubernetes.events.ApiServer.request", ask), recorder:
        yield recorder, notes


def test_guarantee_1_first_dropped_event_is_a_warning() -> None:
    down = [RecordsUnavailableError(None, f"down {number}") for number in range(3)]
    with structlog.testing.capture_logs() as logs, recording(*down[:2], None, down[2]) as (recorder, notes):
        for number in range(4):
            recorder.take(ActionFailed("delete_lease", f"refused {number}", about=f"gateway-{number}"))
    assert notes == ["gateway-2: refused 2"]
    assert [(log["event"], log["log_level"], log["reason"]) for log in logs] == [
        ("event_dropped", "warning", "down 0"),
        ("event_dropped", "debug", "down 1"),
        ("event_dropped", "warning", "down 2"),
    ]


def test_guarantee_2_lasting_failure_gets_events_at_growing_intervals() -> None:
    with recording() as (recorder, notes):
        for attempt in range(1, 9):
            recorder.take(ActionFailed("purge_trash", f"no answer after {attempt} s", about="/tmp/.lodge/trash/a"))
            recorder.take(ActionFailed("purge_trash", "the same for all", about=f"/tmp/.lodge/trash/{attempt}"))
    lasting = [note for note in notes if "no answer" in note]
    assert lasting == [f"/tmp/.lodge/trash/a: no answer after {attempt} s" for attempt in (1, 2, 4, 8)]
    assert len(notes) == len(lasting) + 8, "each other object has its own count"


def test_failures_are_counted_from_many_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reaper.kubernetes.events._MOST_WAITING", 4)
    interval = sys.getswitchinterval()
    recorder = EventRecorder(mock.Mock(), "reaper-0", lambda: LEASE)

    def fail(thread: int) -> None:
        for number in range(2_000):
            recorder.take(ActionFailed("purge_trash", "Permission denied", about=f"{thread}.{number}"))

    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as threads, structlog.testing.capture_logs():
            for failing in [threads.submit(fail, thread) for thread in range(8)]:
                failing.result()
    finally:
        sys.setswitchinterval(interval)


def test_failure_without_session_names_its_object() -> None:
    (event,) = events_for(ActionFailed("purge_trash", "Permission denied", about="/tmp/.lodge/trash/a"))
    assert (event.about, event.action, event.note) == (None, "PurgeTrash", "/tmp/.lodge/trash/a: Permission denied")
