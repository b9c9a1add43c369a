"""A workspace with a reaper, a clock that only the test moves, and the leases of gateways."""

import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import structlog

from tests.reaper.passes import PassSummary, SingleThreadReaper
from tests.reaper.sessions import TABLE, create_location, create_record
from workspace.files.leases import FileLeases
from workspace.files.session_locations import FileSessionLocations
from workspace.files.session_records import FileSessionRecords
from workspace.identifiers import ReplicaId, SessionUuid
from workspace.record_store import StoredRecord
from workspace.records import Phase

LEASE_SECONDS = 10.0
GRACE_SECONDS = 5.0


@dataclass
class World:
    """The storage of a reaper, and a clock that shows ``now_seconds``."""

    root: Path
    now_seconds: float = 1000.0
    records: FileSessionRecords = field(init=False)
    leases: FileLeases = field(init=False)
    locations: FileSessionLocations = field(init=False)
    reaper: SingleThreadReaper = field(init=False)

    def __post_init__(self) -> None:
        self.records = FileSessionRecords(self.root)
        self.leases = FileLeases(self.root)
        self.locations = FileSessionLocations(self.root)
        self.locations.initialise()
        self.reaper = self.new_reaper()

    def new_reaper(self, **parts: Any) -> SingleThreadReaper:
        defaults = {
            "records": self.records,
            "leases": self.leases,
            "locations": self.locations,
            "lease_duration_seconds": LEASE_SECONDS,
            "grace_period_seconds": GRACE_SECONDS,
            "monotonic": lambda: self.now_seconds,
            "log": structlog.get_logger(),
        }
        return SingleThreadReaper(**(defaults | parts))

    def start_session(self, *holders: str, phase: Phase = Phase.ACTIVE) -> StoredRecord:
        """Start a session with a location, and renew the leases of its holders."""
        stored = create_record(self.records, *holders, phase=phase)
        self.make_location(stored.record.session_uuid)
        for holder in holders:
            self.leases.renew(ReplicaId(holder))
        return stored

    def make_location(self, session_uuid: SessionUuid) -> Path:
        return create_location(self.locations, session_uuid)

    def passes(self, seconds: float, *renewing: str, period_seconds: float = 1.0) -> list[PassSummary]:
        """Make a pass in each period of the time; these replicas renew their leases before each pass."""
        summaries = []
        for _ in range(int(seconds / period_seconds)):
            self.now_seconds += period_seconds
            for replica in renewing:
                self.leases.renew(ReplicaId(replica))
            summaries.append(self.reaper.run_once())
        return summaries

    def is_there(self, stored: StoredRecord) -> bool:
        """Return whether the session has its record and its location; fail if it has only one of them."""
        has_record = stored.record.name in {found.record.name for found in self.records.list()}
        has_location = (self.locations.path(stored.record.session_uuid) / TABLE / "data").exists()
        assert has_record == has_location, f"record: {has_record}, location: {has_location}"
        return has_record

    def assert_nothing_is_left(self) -> None:
        assert not self.records.list()
        assert not self.locations.list()
        assert not self.locations.trash()
        assert not self.leases.list()


class LateEvent(threading.Event):
    """An event that is cleared only after another thread has set it."""

    def __init__(self) -> None:
        super().__init__()
        self.is_about_to_be_cleared = threading.Event()

    def clear(self) -> None:
        self.is_about_to_be_cleared.set()
        self.wait()
        super().clear()


@pytest.fixture
def late_event() -> LateEvent:
    return LateEvent()


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "workspace")


@pytest.fixture
def new_world(tmp_path: Path) -> Callable[[], World]:
    return lambda: World(tmp_path / uuid.uuid4().hex)
