"""``lodge reap``: the reaper as a process."""

import signal
import threading
import time
from pathlib import Path

import structlog

from lodge.settings import Settings
from reaper.reaper import Reaper
from workspace.lease_files import FileLeases
from workspace.locations import SessionLocations
from workspace.record_files import FileSessionRecords

_LONGEST_PERIOD_SECONDS = 10.0
_SHORTEST_PERIOD_SECONDS = 0.2


def run_reaper(settings: Settings, root: Path) -> None:
    """Reaps until SIGINT or SIGTERM.

    Args:
        settings: For the times.
        root: The default temporary workspace.
    """
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    log = structlog.get_logger("reaper")
    locations = SessionLocations(root)
    locations.initialise()
    reaper = Reaper(
        records=FileSessionRecords(root),
        leases=FileLeases(root),
        locations=locations,
        lease_duration_seconds=settings.lease_duration,
        grace_period_seconds=settings.grace_period,
        monotonic=time.monotonic,
        log=log,
    )
    period_seconds = min(settings.lease_duration, settings.grace_period) / 3
    period_seconds = min(max(period_seconds, _SHORTEST_PERIOD_SECONDS), _LONGEST_PERIOD_SECONDS)
    log.info("reaper_started", workspace=str(root), period_seconds=period_seconds)
    reaper.run(stop, period_seconds)
    log.info("reaper_stopped")
