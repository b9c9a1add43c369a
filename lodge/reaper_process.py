"""Runs the reaper as a child process of the gateway and restarts it when it dies."""

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import timedelta

import structlog
import tenacity

from lodge.audit_log import audit_destination
from lodge.children import start_child, stop_child
from lodge.settings import ENVIRONMENT_PREFIX, ReapSettings, ServeSettings
from workspace.workspaces import Workspaces

_STOP_SECONDS = 10
_HEALTHY_SECONDS = 60

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


class _ReaperDiedEarlyError(Exception):
    """Raised if the reaper process died soon after its start.

    The next start is delayed.
    """


@asynccontextmanager
async def reaper_process(environment: Callable[[], Mapping[str, str]]) -> AsyncIterator[None]:
    """Keep a reaper process running for the duration of the block.

    Enter the context manager in the main thread; see :mod:`lodge.children`.

    Args:
        environment: A function that returns the environment variables for a reaper process that starts now. See
            :func:`environment_for`.
    """
    keeping = asyncio.create_task(_keep_running(environment))
    try:
        yield
    finally:
        keeping.cancel()
        with suppress(asyncio.CancelledError):
            await keeping


def environment_for(settings: ServeSettings, workspaces: Workspaces) -> Mapping[str, str]:
    """Return the environment variables for a reaper process.

    The variables contain the given settings and workspaces. Lodge variables in the environment of this process are not
    passed on.
    """
    uris = [f"{name}={workspace.uri}" for name, workspace in workspaces.by_name.items()]
    values = {name: _format(getattr(settings, name)) for name in ReapSettings.model_fields} | {
        "workspace": ",".join(uris),
        "metrics_listen": settings.reaper_metrics_listen,
        "audit_log": audit_destination(settings) or settings.audit_log,
    }
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(ENVIRONMENT_PREFIX)}
    settings_given = {f"{ENVIRONMENT_PREFIX}{key.upper()}": value for key, value in values.items() if value is not None}
    return inherited | settings_given


def _format(value: object) -> str | None:
    """Format a setting as the value of an environment variable.

    Returns None if the setting has no value.
    """
    if isinstance(value, timedelta):
        return f"{value.total_seconds():.6f}"
    if isinstance(value, tuple):
        return ",".join(value) or None
    if isinstance(value, Mapping):
        return ",".join(f"{name}={each}" for name, each in value.items()) or None
    return None if value is None else str(value)


async def _keep_running(environment: Callable[[], Mapping[str, str]]) -> None:
    while True:
        await _run(environment)


@tenacity.retry(
    retry=tenacity.retry_if_exception_type(_ReaperDiedEarlyError),
    wait=tenacity.wait_random_exponential(multiplier=0.5, max=30),
)
async def _run(environment: Callable[[], Mapping[str, str]]) -> None:
    """Run one reaper process until it ends.

    Raises:
        _ReaperDiedEarlyError: If the process did not start or ran for less than ``_HEALTHY_SECONDS``.
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
