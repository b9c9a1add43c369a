"""A gateway process, which `lodge.watcher` starts.

======================  ==========================================================
Signal                  Effect
======================  ==========================================================
SIGTERM                 Stops the gateway. A second signal has no further effect.
SIGHUP                  Reloads workspaces and authentication methods
                        (:mod:`lodge.configuration`), and opens the file of the
                        audit log again.
======================  ==========================================================
"""

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, fields, replace

import structlog
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

from gateway.admission.limits import AdmissionLimits
from gateway.auditing.audit import Audit
from gateway.blocking_work.current_work import CurrentWork
from gateway.config import GatewayConfig, Limits
from gateway.connections.listener import Addresses, ListenError
from gateway.errors import GatewayError
from gateway.health import GatewayHealth
from gateway.metrics import GatewayGauges, GatewayMetrics
from gateway.reloading.last_valid_value import SourceError
from gateway.server import Gateway
from gateway.sessions.life_signs import Identity, LifeSigns
from gateway.sessions.suspicions import Suspicion
from lodge.audit_log import open_audit_log
from lodge.authentication import log_risks, method_list
from lodge.children import REQUESTS
from lodge.command_errors import StartError
from lodge.configuration import Configuration
from lodge.connections import backend_access, connection_limits, server_tls
from lodge.impersonation import check_impersonation
from lodge.kept_values import KeptValue
from lodge.log_output import LogOutput
from lodge.memory_protection import forbid_core_dumps
from lodge.metrics_endpoint import serve_metrics
from lodge.settings import ServeSettings
from lodge.stores import open_stores
from lodge.tuning import raise_open_file_limit
from workspace.http_endpoint import HttpEndpoint
from workspace.identifiers import Principal
from workspace.leases import UNRESPONSIVE_LEASES
from workspace.root_identities import RootError
from workspace.workspaces import Workspaces

_EMBEDDED_SPARK_STOP_SECONDS = 10.0
_BEAT_SECONDS = 0.5

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class LocalSpark:
    """The local Spark server of the watcher.

    Attributes:
        address: Its address, in the form ``sc://127.0.0.1:PORT``.
        token: The token that it wants.
    """

    address: str
    token: str


@dataclass(frozen=True, slots=True)
class FromWatcher:
    """What a gateway gets from its watcher.

    Attributes:
        signs: The memory that both share. It contains the identity of the gateway before this one.
        work: The memory in which the gateway notes on which requests it works.
        suspicions: The requests on which the gateways before this one worked when they were lost.
        spark: The local Spark server, or None if the gateway uses other backends.
        reloads: Whether a reload was requested since the start of the watcher.
        root_ids: The ids of the roots that a gateway used last, if session records are files.
    """

    signs: LifeSigns
    work: CurrentWork
    suspicions: Sequence[Suspicion]
    spark: LocalSpark | None
    reloads: bool
    root_ids: KeptValue


async def serve(configuration: Configuration, log_output: LogOutput, watcher: FromWatcher) -> None:
    """Serve clients until SIGTERM.

    Args:
        configuration: The settings.
        log_output: The output of the log, whose lost lines are a metric.
        watcher: What the watcher gives to this process.

    Raises:
        StartError: If a component does not start.
    """
    beating = asyncio.create_task(_beat(watcher.signs))
    reload = asyncio.Event()
    serving = asyncio.create_task(_serve(configuration, reload, log_output, watcher))
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, lambda: serving.cancelling() or serving.cancel())
    loop.add_signal_handler(signal.SIGHUP, reload.set)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, REQUESTS)
    try:
        with suppress(asyncio.CancelledError):
            await serving
    finally:
        beating.cancel()


async def _serve(
    configuration: Configuration, reload: asyncio.Event, log_output: LogOutput, watcher: FromWatcher
) -> None:
    signs, spark = watcher.signs, watcher.spark
    settings, workspaces, before = configuration.settings, configuration.workspaces, signs.identity
    forbid_core_dumps()
    await asyncio.to_thread(configuration.open_authentication, replaces_gateway=before is not None)
    log_risks(settings)
    async with AsyncExitStack() as stack:
        audit = Audit(stack.enter_context(open_audit_log(settings, replaces_gateway=before is not None)))
        # In a thread: on slow storage, this takes long, and the watcher waits only while the event loop responds
        stores = await asyncio.to_thread(open_stores, settings, workspaces, watcher.root_ids)
        if settings.impersonation:
            await asyncio.to_thread(check_impersonation, settings, workspaces)
        config = config_for(settings, workspaces, spark)
        config = replace(config, backend_access=replace(config.backend_access, memory=configuration.memory))
        if config.tls is not None:
            config = replace(config, tls=replace(config.tls, memory=configuration.memory))
        if before is not None:
            config = _at_addresses_of(before, config)
        registry = CollectorRegistry()
        registry.register(log_output)
        registry.register(Restarts(signs))
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
            before=None if before is None else before.replica,
            suspicions=watcher.suspicions,
            work=watcher.work,
        )
        registry.register(GatewayGauges(gateway.state))
        health = GatewayHealth(
            state=gateway.state,
            has_backends=bool(config.backends or config.principal_backends),
            unresponsive_limit_seconds=UNRESPONSIVE_LEASES * config.lease_duration_seconds,
        )
        endpoint = HttpEndpoint(health.alive, health.ready, registry)
        metrics_address = settings.metrics_listen if before is None else before.metrics_listen
        metrics_listen = stack.enter_context(serve_metrics(metrics_address, endpoint, event="gateway_metrics_served"))
        addresses = await stack.enter_async_context(_start(gateway, settings, signs, spark))
        configuration.memory.forget_former_gateway()
        signs.identity = Identity(gateway.replica, addresses.main, addresses.certificate, metrics_listen)
        if before is None:
            print(f"Lodge is ready at {addresses.url}", flush=True)
            if addresses.certificate_url is not None:
                print(f"Clients with certificates connect to {addresses.certificate_url}", flush=True)
        if watcher.reloads:
            reload.set()  # the former gateway may have been lost in the reload
        opening = asyncio.create_task(configuration.open_missing_methods(gateway.reload))
        stack.callback(opening.cancel)
        await _reload_on_request(configuration, reload, gateway, audit, stores.keep_root_ids)


async def _beat(signs: LifeSigns) -> None:
    """Show the watcher that the event loop responds."""
    while True:
        signs.beat()
        await asyncio.sleep(_BEAT_SECONDS)


class Restarts(Collector):
    """The metric of how often the gateway was started again.

    Args:
        signs: The memory that the gateway shares with its watcher.
    """

    def __init__(self, signs: LifeSigns) -> None:
        self._signs = signs

    def collect(self) -> Iterator[CounterMetricFamily]:
        """Return the metric."""
        yield CounterMetricFamily(
            "lodge_gateway_restarts",
            "How often the gateway was restarted because it had ended or did not respond. Its other counters begin at "
            "0 after a restart.",
            self._signs.restarts,
        )


def _at_addresses_of(before: Identity, config: GatewayConfig) -> GatewayConfig:
    """Return the configuration with the addresses that the clients know, also if the system chose their ports."""
    tls = config.tls
    if tls is not None and before.certificate_listen is not None:
        tls = replace(tls, certificate_listen=before.certificate_listen)
    return replace(config, listen=before.listen, tls=tls)


async def _reload_on_request(
    configuration: Configuration,
    reload: asyncio.Event,
    gateway: Gateway,
    audit: Audit,
    keep_root_ids: Callable[[], None],
) -> None:
    while True:
        await reload.wait()
        reload.clear()
        audit.log.reopen()
        changed = await configuration.reload(gateway.reload)
        keep_root_ids()
        audit.administrative_act("reload_configuration", details=reload_details(changed))


def reload_details(changed: Sequence[str] | None) -> Mapping[str, object]:
    """Return the fields of the audit event of a reload.

    Args:
        changed: A description of each change. None if the reload had no effect.
    """
    return {"outcome": "failed" if changed is None else "succeeded", "changed": changed}


def config_for(settings: ServeSettings, workspaces: Workspaces, spark: LocalSpark | None) -> GatewayConfig:
    """Return the configuration of the gateway.

    Args:
        settings: The settings of ``lodge serve``.
        workspaces: The configured workspaces.
        spark: The local Spark server, or None if the gateway uses other backends.
    """
    methods = {method.kind for method in settings.authentication}
    return GatewayConfig(
        listen=settings.listen,
        backends=settings.backend if spark is None else (spark.address,),
        workspaces=workspaces,
        session_idle_timeout_seconds=settings.session_idle_timeout.total_seconds(),
        lease_duration_seconds=settings.lease_duration.total_seconds(),
        has_own_backend=spark is not None,
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
        backend_access=backend_access(settings, {} if spark is None else {spark.address: spark.token}),
        backend_keepalive_seconds=settings.backend_keepalive.total_seconds(),
        connections=connection_limits(settings, raise_open_file_limit()),
        tls=server_tls(settings, methods),
    )


def _admission_limits(settings: ServeSettings) -> AdmissionLimits:
    names = {field.name for field in fields(AdmissionLimits)} - {"request_timeout"}
    limits = {name: int(getattr(settings, name)) for name in names}
    return AdmissionLimits(**limits, request_timeout=settings.request_timeout.total_seconds())


@asynccontextmanager
async def _start(
    gateway: Gateway, settings: ServeSettings, signs: LifeSigns, spark: LocalSpark | None
) -> AsyncIterator[Addresses]:
    drain_seconds = settings.drain_timeout.total_seconds()
    if spark is not None:
        drain_seconds = min(drain_seconds, _EMBEDDED_SPARK_STOP_SECONDS)
    try:
        addresses = await gateway.start()
    except (ListenError, SourceError) as error:
        raise StartError(str(error)) from error
    except (GatewayError, RootError) as error:
        reason = f" {error.__cause__}" if error.__cause__ else ""
        raise StartError(f"{error}{reason}") from error
    try:
        yield addresses
    finally:
        await gateway.stop(drain_seconds, backends_end=spark is not None and signs.is_stopping)
