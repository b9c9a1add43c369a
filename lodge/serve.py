"""The command ``lodge serve``: a gateway with its reaper and local Spark.

The components start in the order Spark, reaper, gateway and stop in the reverse order. Therefore, the backend is still
running when the gateway ends its sessions.

======================  ==========================================================
Signal                  Effect
======================  ==========================================================
SIGINT, SIGTERM         Stops everything. A second signal has no further effect.
SIGHUP                  Reloads workspaces and authentication methods
                        (:mod:`lodge.configuration`), and opens the file of the
                        audit log again.
======================  ==========================================================
"""

import asyncio
import secrets
import signal
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import fields

import structlog
from prometheus_client import CollectorRegistry

from gateway.admission.limits import AdmissionLimits
from gateway.audit import Audit
from gateway.config import GatewayConfig, Limits
from gateway.connections.credential_files import CredentialFileError
from gateway.connections.listener import Addresses, ListenError
from gateway.errors import GatewayError
from gateway.health import GatewayHealth
from gateway.metrics import GatewayGauges, GatewayMetrics
from gateway.server import Gateway
from gateway.sessions.lease_thread import STALL_LIMIT_LEASES
from lodge.audit_log import open_audit_log
from lodge.authentication import log_risks, method_list
from lodge.configuration import Configuration
from lodge.connections import backend_access, connection_limits, server_tls
from lodge.embedded_spark import EmbeddedSpark, start_spark
from lodge.errors import StartError
from lodge.impersonation import check_impersonation
from lodge.log_output import LogOutput
from lodge.memory_protection import forbid_core_dumps
from lodge.metrics_endpoint import serve_metrics
from lodge.reaper_process import reaper_process
from lodge.settings import ServeSettings
from lodge.stores import open_stores
from lodge.tuning import raise_open_file_limit
from workspace.http_endpoint import HttpEndpoint
from workspace.identifiers import Principal
from workspace.root_identities import RootError
from workspace.workspaces import Workspaces

_EMBEDDED_SPARK_STOP_SECONDS = 10.0

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


async def serve(configuration: Configuration, log_output: LogOutput) -> None:
    """Serve clients until SIGINT or SIGTERM.

    Raises:
        StartError: If a component does not start, or if the local Spark server stops.
    """
    reload = asyncio.Event()
    serving = asyncio.create_task(_serve(configuration, reload, log_output))

    def stop() -> None:
        if not serving.cancelling():
            _log.info("lodge_stopping")
            serving.cancel()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    loop.add_signal_handler(signal.SIGHUP, reload.set)
    try:
        await serving
    except asyncio.CancelledError:
        _log.info("lodge_stopped")


async def _serve(configuration: Configuration, reload: asyncio.Event, log_output: LogOutput) -> None:
    settings, workspaces = configuration.settings, configuration.workspaces
    forbid_core_dumps()
    await asyncio.to_thread(configuration.open_authentication)
    log_risks(settings)
    async with AsyncExitStack() as stack:
        audit = Audit(stack.enter_context(open_audit_log(settings)))
        spark, spark_token = None, ""
        if not settings.backend and not settings.impersonation:
            spark_token = secrets.token_urlsafe(32)
            memory, message_bytes = settings.spark_driver_memory, settings.max_message_bytes
            spark = await stack.enter_async_context(start_spark(memory, message_bytes, spark_token))
        stores = open_stores(settings, workspaces)
        if settings.impersonation:
            check_impersonation(settings, workspaces)
        if settings.reaper:
            await stack.enter_async_context(reaper_process(configuration.environment))
        config = config_for(settings, workspaces, spark, spark_token)
        registry = CollectorRegistry()
        registry.register(log_output)
        metrics = GatewayMetrics(registry)
        gateway = Gateway(
            config,
            stores.records,
            stores.leases,
            stores.locations,
            audit,
            metrics=metrics,
            authentication=method_list(configuration.methods),
            schema_segments=stores.schema_segments,
        )
        registry.register(GatewayGauges(gateway.state))
        health = GatewayHealth(
            state=gateway.state,
            has_backends=bool(config.backends or config.principal_backends),
            stall_limit_seconds=STALL_LIMIT_LEASES * config.lease_duration_seconds,
        )
        endpoint = HttpEndpoint(health.alive, health.ready, registry)
        stack.enter_context(serve_metrics(settings.metrics_listen, endpoint, event="gateway_metrics_served"))
        drain_seconds = settings.drain_timeout.total_seconds()
        if spark is not None:
            drain_seconds = min(drain_seconds, _EMBEDDED_SPARK_STOP_SECONDS)
        addresses = await stack.enter_async_context(_start(gateway, drain_seconds))
        print(f"Lodge is ready at {addresses.url}", flush=True)
        if addresses.certificate_url is not None:
            print(f"Clients with certificates connect to {addresses.certificate_url}", flush=True)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(_reload_on_request(configuration, reload, gateway, audit))
                if spark is not None:
                    group.create_task(spark.watch())
        except ExceptionGroup as failed:
            raise failed.exceptions[0] from None


async def _reload_on_request(
    configuration: Configuration, reload: asyncio.Event, gateway: Gateway, audit: Audit
) -> None:
    while True:
        await reload.wait()
        reload.clear()
        audit.log.reopen()
        changed = await configuration.reload(gateway.reload)
        audit.administrative_act("reload_configuration", details=reload_details(changed))


def reload_details(changed: Sequence[str] | None) -> Mapping[str, object]:
    """Return the fields of the audit event of a reload.

    Args:
        changed: A description of each change. None if the reload had no effect.
    """
    return {"outcome": "failed" if changed is None else "succeeded", "changed": changed}


def config_for(
    settings: ServeSettings, workspaces: Workspaces, spark: EmbeddedSpark | None, spark_token: str = ""
) -> GatewayConfig:
    """Return the configuration of the gateway.

    Args:
        settings: The settings of ``lodge serve``.
        workspaces: The configured workspaces.
        spark: The local Spark server, or None if the gateway uses other backends.
        spark_token: The token of the local Spark server.
    """
    methods = {method.kind for method in settings.authentication}
    return GatewayConfig(
        listen=settings.listen,
        backends=settings.backend if spark is None else (spark.address,),
        workspaces=workspaces,
        session_idle_timeout_seconds=settings.session_idle_timeout.total_seconds(),
        lease_duration_seconds=settings.lease_duration.total_seconds(),
        backends_end_with_gateway=spark is not None,
        max_message_bytes=settings.max_message_bytes,
        max_plan_bytes=int(settings.max_plan_bytes),
        log_query_text=settings.log_query_text,
        spark_readers=settings.spark_readers,
        limits=Limits(
            session_tables=settings.max_session_tables,
            session_bytes=settings.max_session_bytes,
            principal_tables=settings.max_principal_tables,
            principal_bytes=settings.max_principal_bytes,
        ),
        admission=_admission_limits(settings),
        detached_timeout_seconds=settings.detached_timeout.total_seconds(),
        impersonation=settings.impersonation,
        admins=settings.admins,
        principal_backends={Principal(name): address for name, address in settings.principal_backend.items()},
        backend_access=backend_access(settings, {} if spark is None else {spark.address: spark_token}),
        backend_keepalive_seconds=settings.backend_keepalive.total_seconds(),
        connections=connection_limits(settings, raise_open_file_limit()),
        tls=server_tls(settings, methods),
    )


def _admission_limits(settings: ServeSettings) -> AdmissionLimits:
    names = {field.name for field in fields(AdmissionLimits)} - {"request_timeout"}
    limits = {name: int(getattr(settings, name)) for name in names}
    return AdmissionLimits(**limits, request_timeout=settings.request_timeout.total_seconds())


@asynccontextmanager
async def _start(gateway: Gateway, drain_seconds: float) -> AsyncIterator[Addresses]:
    try:
        addresses = await gateway.start()
    except (ListenError, CredentialFileError) as error:
        raise StartError(str(error)) from error
    except (GatewayError, RootError) as error:
        reason = f" {error.__cause__}" if error.__cause__ else ""
        raise StartError(f"{error}{reason}") from error
    try:
        yield addresses
    finally:
        await gateway.stop(drain_seconds)
