"""The reaper beside the gateway: a child process that is started again when it dies."""

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import timedelta

import structlog
import tenacity

from lodge.children import start_child, stop_child
from lodge.settings import ENVIRONMENT_PREFIX, ReapSettings
from workspace.workspaces import Workspaces

_STOP_SECONDS = 10
_HEALTHY_SECONDS = 60

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


class _ReaperDiedEarlyError(Exception):
    pass


@asynccontextmanager
async def reaper_process(environment: Callable[[], Mapping[str, str]]) -> AsyncIterator[None]:
    """Keeps a reaper running for the time of the block; to be entered in the main thread.

    Args:
        environment: As :func:`environment_for` makes it, of what holds when a reaper is started.
    """
    keeping = asyncio.create_task(_keep_running(environment))
    try:
        yield
    finally:
        keeping.cancel()
        with suppress(asyncio.CancelledError):
            await keeping


def environment_for(settings: ReapSettings, workspaces: Workspaces) -> Mapping[str, str]:
    """Our environment, with the settings that we have in the place of those that we were given."""
    uris = [f"{name}={workspace.uri}" for name, workspace in workspaces.by_name.items()]
    values = {name: _spelled(getattr(settings, name)) for name in ReapSettings.model_fields} | {
        "workspace": ",".join(uris)
    }
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(ENVIRONMENT_PREFIX)}
    given = {f"{ENVIRONMENT_PREFIX}{key.upper()}": value for key, value in values.items() if value is not None}
    return inherited | given


def _spelled(value: object) -> str | None:
    """A setting's value as the environment has it; None for one that is not set."""
    if isinstance(value, timedelta):
        return f"{value.total_seconds():.6f}"
    return None if value is None else str(value)


async def _keep_running(environment: Callable[[], Mapping[str, str]]) -> None:
    while True:
        await _run(environment)


@tenacity.retry(
    retry=tenacity.retry_if_exception_type(_ReaperDiedEarlyError),
    wait=tenacity.wait_random_exponential(multiplier=0.5, max=30),
)
async def _run(environment: Callable[[], Mapping[str, str]]) -> None:
    """Runs one reaper to its end.

    Raises: _ReaperDiedEarlyError if it had not worked for long; the next one then waits.
    """
    begun_seconds = time.monotonic()
    try:
        process = await start_child([sys.executable, "-m", "lodge", "reap"], environment=environment())
    except OSError as error:
        _log.error("reaper_process_failed", reason=str(error))
        raise _ReaperDiedEarlyError from error
    _log.info("reaper_process_started", pid=process.pid)
    try:
        status = await process.wait()
    finally:
        await stop_child(process, _STOP_SECONDS)
    _log.error("reaper_process_died", pid=process.pid, exit_status=status)
    if time.monotonic() - begun_seconds < _HEALTHY_SECONDS:
        raise _ReaperDiedEarlyError
