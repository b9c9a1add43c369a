"""``lodge serve``: a gateway with what it needs around it.

What is started last is stopped first: the local Spark, the reaper, the gateway; so the gateway ends its
sessions while their backend is there. SIGINT and SIGTERM stop all of it, once; a second signal does not cut
the stop short.
"""

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import structlog

from gateway.config import GatewayConfig
from gateway.errors import LodgeError as GatewayError
from gateway.server import Gateway, ListenError
from lodge.embedded_spark import EmbeddedSpark, started_spark
from lodge.errors import StartError
from lodge.reap import initialised_locations
from lodge.reaper_process import reaper_process
from lodge.settings import ServeSettings
from workspace.lease_files import FileLeases
from workspace.record_files import FileSessionRecords
from workspace.workspaces import Workspaces

_STOP_SECONDS = 10

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


async def serve(settings: ServeSettings, workspaces: Workspaces) -> None:
    """Serves until SIGINT or SIGTERM.

    Raises: StartError if something does not start, or the local Spark stops.
    """
    serving = asyncio.create_task(_serve(settings, workspaces))

    def stop() -> None:
        if not serving.cancelling():
            _log.info("lodge_stopping")
            serving.cancel()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    try:
        await serving
    except asyncio.CancelledError:
        _log.info("lodge_stopped")


async def _serve(settings: ServeSettings, workspaces: Workspaces) -> None:
    async with AsyncExitStack() as stack:
        spark = None
        if not settings.backend:
            memory, message_bytes = settings.spark_driver_memory, settings.max_message_bytes
            spark = await stack.enter_async_context(started_spark(memory, message_bytes))
        initialised_locations(workspaces)
        if settings.reaper:
            await stack.enter_async_context(reaper_process(settings, workspaces))
        config = config_for(settings, workspaces, spark)
        address = await stack.enter_async_context(_gateway(config))
        print(f"Lodge is ready at sc://{address}", flush=True)
        if spark is not None:
            await spark.watch()
        await asyncio.Event().wait()


def config_for(settings: ServeSettings, workspaces: Workspaces, spark: EmbeddedSpark | None) -> GatewayConfig:
    return GatewayConfig(
        listen=settings.listen,
        backends=settings.backend if spark is None else (spark.address,),
        workspaces=workspaces,
        session_idle_timeout_seconds=settings.session_idle_timeout.total_seconds(),
        lease_duration_seconds=settings.lease_duration.total_seconds(),
        backends_end_with_gateway=spark is not None,
        max_message_bytes=settings.max_message_bytes,
        log_query_text=settings.log_query_text,
    )


@asynccontextmanager
async def _gateway(config: GatewayConfig) -> AsyncIterator[str]:
    root = config.workspaces.temporary.root
    locations = initialised_locations(config.workspaces)
    gateway = Gateway(config, FileSessionRecords(root), FileLeases(root), locations)
    try:
        address = await gateway.start()
    except ListenError as error:
        raise StartError(f"{error}. Give another address with --listen.") from error
    except GatewayError as error:
        raise StartError(str(error)) from error
    try:
        yield address
    finally:
        await gateway.stop(_STOP_SECONDS)
