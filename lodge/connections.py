"""The configuration of connections, made from the settings."""

from collections.abc import Collection, Mapping
from types import MappingProxyType

import structlog

from gateway.connections.backend_credentials import BackendAccess
from gateway.connections.listener import ConnectionLimits, ServerTls
from gateway.connections.tls import TlsFiles
from lodge.settings import ReapSettings, ServeSettings
from lodge.tls_settings import CERTIFICATE_METHOD

_NO_TOKENS: Mapping[str, str] = MappingProxyType({})
_OTHER_OPEN_FILES = 512

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


def backend_access(settings: ReapSettings, tokens: Mapping[str, str] = _NO_TOKENS) -> BackendAccess:
    """Return how Lodge authenticates to its backends.

    Args:
        settings: The settings of the command.
        tokens: The tokens of backends that Lodge has started, by address.
    """
    return BackendAccess(
        token_file=settings.backend_token_file,
        tokens=tokens,
        ca=settings.backend_ca,
        certificate=settings.backend_certificate,
        key=settings.backend_key,
    )


def connection_limits(settings: ServeSettings, open_file_limit: int) -> ConnectionLimits:
    """Return the limits for connections of clients.

    Args:
        settings: The settings of ``lodge serve``.
        open_file_limit: How many files this process may open. Each connection is one of them.
    """
    age, connections = settings.max_connection_age, settings.max_connections
    possible = max(open_file_limit - _OTHER_OPEN_FILES, open_file_limit // 2)
    if connections > possible:
        _log.warning("connection_limit_reduced", max_connections=possible, open_file_limit=open_file_limit)
        connections = possible
    return ConnectionLimits(
        connections=connections,
        idle_timeout_seconds=settings.connection_idle_timeout.total_seconds(),
        age_seconds=age.total_seconds(),
    )


def server_tls(settings: ServeSettings, methods: Collection[str]) -> ServerTls | None:
    """Return the TLS settings of the gateway, or None without TLS.

    Args:
        settings: The settings of ``lodge serve``.
        methods: The kinds of the authentication methods.
    """
    tls = settings.tls
    if tls is None:
        return None
    files = TlsFiles(tls.certificate, tls.key, tls.client_ca)
    if CERTIFICATE_METHOD not in methods:
        return ServerTls(files)
    if set(methods) == {CERTIFICATE_METHOD}:
        return ServerTls(files, requires_client_certificate=True)
    return ServerTls(files, certificate_listen=tls.client_certificate_listen or _next_port(settings.listen))


def _next_port(address: str) -> str:
    """Return the address with the next port.

    Port 0 stays 0, because the system chooses a port.
    """
    host, _, port = address.rpartition(":")
    return f"{host}:{int(port) + 1 if int(port) else 0}"
