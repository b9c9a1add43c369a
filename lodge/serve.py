"""``lodge serve``: a gateway replica, and beside it what the embedded default needs.

Why it exists: started together, the parts must stop together and in the right order: the gateway first, for it ends its
sessions at the backend; then the reaper; then the local Spark.
"""

import asyncio
import contextlib
import os
import signal
import sys

import structlog
import tenacity

from gateway.config import GatewayConfig
from gateway.server import Gateway
from lodge.children import start_child, stop_child
from lodge.embedded_spark import EmbeddedSpark, embedded_spark
from lodge.settings import Settings
from workspace.lease_files import FileLeases
from workspace.locations import SessionLocations
from workspace.record_files import FileSessionRecords
from workspace.workspaces import Workspaces

_GRACE_SECONDS = 2.0
_WATCH_SECONDS = 0.5

log = structlog.get_logger(__name__)


class PartDiedError(Exception):
    """Something that the gateway cannot go on without has ended by itself."""


def serve(settings: Settings, workspaces: Workspaces) -> None:
    """Serves until SIGINT or SIGTERM.

    Raises:
        EmbeddedSparkError, ListenError: It cannot start.
        PartDiedError: The local Spark has died.
    """
    with contextlib.ExitStack() as stack:
        spark = None if settings.backend else stack.enter_context(embedded_spark(settings.spark_driver_memory))
        asyncio.run(_serve(settings, workspaces, spark))


async def _serve(settings: Settings, workspaces: Workspaces, spark: EmbeddedSpark | None) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    root = workspaces.temporary.root
    locations = SessionLocations(root)
    locations.initialise()
    config = GatewayConfig(
        listen=settings.listen,
        backends=settings.backend if spark is None else (spark.address,),
        workspaces=workspaces,
        session_idle_timeout_seconds=settings.session_idle_timeout,
        lease_duration_seconds=settings.lease_duration,
        backends_end_with_gateway=spark is not None,
        max_message_bytes=settings.max_message_bytes,
        log_query_text=settings.log_query_text,
    )
    gateway = Gateway(config, FileSessionRecords(root), FileLeases(root), locations)
    address = await gateway.start()
    reaper = asyncio.create_task(_keep_reaper(settings, workspaces)) if settings.reaper else None
    try:
        print(f"Lodge is ready at sc://{address}", flush=True)
        await _until(stop, spark)
    finally:
        await gateway.stop(_GRACE_SECONDS)
        if reaper is not None:
            reaper.cancel()
            await asyncio.gather(reaper, return_exceptions=True)


async def _until(stop: asyncio.Event, spark: EmbeddedSpark | None) -> None:
    """Waits for the signal to stop. Raises: PartDiedError if the local Spark dies first."""
    while not stop.is_set():
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), _WATCH_SECONDS)
        if spark is not None and spark.exit_code is not None:
            raise PartDiedError(
                f"the local Spark Connect server ended with status {spark.exit_code}; its log ends:\n{spark.log_tail()}"
            )


@tenacity.retry(
    retry=tenacity.retry_if_exception_type(PartDiedError),
    wait=tenacity.wait_exponential(multiplier=1, max=30),
)
async def _keep_reaper(settings: Settings, workspaces: Workspaces) -> None:
    """Runs the reaper beside the gateway, and starts it anew when it dies."""
    child = start_child([sys.executable, "-m", "lodge", "reap"], environment=_environment(settings, workspaces))
    try:
        code = await asyncio.to_thread(child.wait)
    finally:
        await asyncio.shield(asyncio.to_thread(stop_child, child, _GRACE_SECONDS))
    log.error("reaper_died", status=code)
    raise PartDiedError(f"the reaper ended with status {code}")


def _environment(settings: Settings, workspaces: Workspaces) -> dict[str, str]:
    """The settings that the reaper must share, as its environment."""
    shared = {
        "LODGE_WORKSPACE": ",".join(f"{name}={each.root.as_uri()}" for name, each in workspaces.by_name.items()),
        "LODGE_DEFAULT_TEMPORARY_WORKSPACE": workspaces.temporary.name,
        "LODGE_LEASE_DURATION": str(settings.lease_duration),
        "LODGE_GRACE_PERIOD": str(settings.grace_period),
        "LODGE_LOG_LEVEL": settings.log_level,
    }
    return {**{key: value for key, value in os.environ.items() if not key.startswith("LODGE_")}, **shared}
