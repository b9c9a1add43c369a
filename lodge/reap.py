"""``lodge reap``: the reaper as a process of its own."""

import asyncio
import signal
import threading
import time

import structlog

from lodge.errors import StartError
from lodge.settings import ReapSettings
from reaper.reaper import Reaper
from workspace.lease_files import FileLeases
from workspace.locations import SessionLocations
from workspace.record_files import FileSessionRecords
from workspace.roots import HomeMovedError, RootError, home_of
from workspace.workspaces import Workspaces

_SHORTEST_PERIOD_SECONDS = 0.2
_LONGEST_PERIOD_SECONDS = 10.0

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


async def reap(settings: ReapSettings, workspaces: Workspaces) -> None:
    """Works until SIGINT or SIGTERM, and ends the pass that it is in.

    Raises: StartError
    """
    stop = threading.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    reaper = _reaper(settings, workspaces)
    period_seconds = period_seconds_of(settings)
    _log.info("reaper_started", workspace=workspaces.temporary.name, period_seconds=period_seconds)
    while not stop.is_set():
        try:
            await asyncio.to_thread(reaper.run, stop, period_seconds)
        except HomeMovedError as error:
            _log.warning("reaper_followed_home", reason=str(error))
            reaper = _reaper(settings, workspaces)
    _log.info("reaper_stopped")


def period_seconds_of(settings: ReapSettings) -> float:
    """Three passes fit into the shorter of lease duration and grace period."""
    shorter = min(settings.lease_duration, settings.grace_period).total_seconds()
    return min(max(shorter / 3, _SHORTEST_PERIOD_SECONDS), _LONGEST_PERIOD_SECONDS)


def initialised_locations(workspaces: Workspaces) -> SessionLocations:
    """Raises: StartError if Lodge's own directories cannot be made in the default temporary workspace."""
    name, root = workspaces.temporary.name, workspaces.temporary.root
    try:
        locations = SessionLocations(root, home_of(root))
        locations.initialise()
    except RootError as error:
        raise StartError(f"The workspace [{name}] cannot be used: {error}") from None
    except OSError as error:
        raise StartError(f"The workspace [{name}] cannot be used: {error}. Correct its storage.") from None
    return locations


def _reaper(settings: ReapSettings, workspaces: Workspaces) -> Reaper:
    locations = initialised_locations(workspaces)
    return Reaper(
        records=FileSessionRecords(locations.home),
        leases=FileLeases(locations.home),
        locations=locations,
        lease_duration_seconds=settings.lease_duration.total_seconds(),
        grace_period_seconds=settings.grace_period.total_seconds(),
        monotonic=time.monotonic,
        log=_log,
    )
