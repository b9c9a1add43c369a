"""Creates the authentication methods from the settings."""

import ipaddress
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, assert_never
from urllib.parse import unquote, urlsplit

import structlog

from gateway.authentication.client_certificates import (
    CertificateGroups,
    CertificateMethod,
    CertificateName,
)
from gateway.authentication.client_certificates import CertificateSettings as CertificateMethodSettings
from gateway.authentication.jwt_tokens import JwtMethod
from gateway.authentication.jwt_tokens import JwtSettings as JwtMethodSettings
from gateway.authentication.method import CredentialKind, Method, Naming
from gateway.authentication.token_file import TokenFileMethod
from gateway.authentication.unavailable import UnavailableMethod
from gateway.reloading.last_valid_value import SourceError
from gateway.reloading.source_memory import SourceMemory
from lodge.authentication_settings import (
    CertificateSettings,
    JwtSettings,
    KubernetesSettings,
    MethodSettings,
    TokensSettings,
)
from lodge.command_errors import SettingError
from lodge.settings import ServeSettings
from lodge.tls_settings import CERTIFICATE_METHOD

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()

Methods = Mapping[Any, Method]
"""The authentication methods by their settings, in the order of the setting."""


def open_methods(
    settings: ServeSettings,
    opened: Methods | None = None,
    *,
    may_be_missing: bool = False,
    memory: SourceMemory | None = None,
) -> Methods:
    """Return the authentication methods of the settings.

    The function reads files and contacts servers.

    Args:
        settings: The settings.
        opened: The methods that are in use. Methods whose settings have not changed are reused.
        may_be_missing: Whether a method that cannot be used is replaced by one that refuses all logins.
        memory: Keeps the files and documents for the gateway that replaces this one.

    Raises:
        SettingError: If a method cannot be used.
    """
    methods: dict[Any, Method] = {}
    for position, method in enumerate(settings.authentication, start=1):
        in_use = (opened or {}).get(method)
        try:
            if in_use is None or isinstance(in_use, UnavailableMethod):
                in_use = _open(method, settings, memory)
            methods[method] = in_use
        except (SourceError, ValueError) as error:  # ValueError: a path contains a NUL character, for example
            problem = f"Method {position} ({method.kind}) of the setting authentication cannot be used: {error}"
            if not may_be_missing:
                raise SettingError(problem) from None
            if not isinstance(in_use, UnavailableMethod) or in_use.problem != problem:
                _log.error("authentication_method_missing", reason=problem)
            methods[method] = UnavailableMethod(method.kind, _reads(method), problem)
    return methods


def _reads(method: MethodSettings) -> CredentialKind:
    is_certificate = isinstance(method, CertificateSettings)
    return CredentialKind.CERTIFICATE if is_certificate else CredentialKind.BEARER_TOKEN


def _open(method: MethodSettings, settings: ServeSettings, memory: SourceMemory | None) -> Method:
    naming = Naming(method.principal_prefix, method.groups_prefix)
    match method:
        case TokensSettings():
            return TokenFileMethod(method.file, naming, memory=memory)
        case JwtSettings():
            return JwtMethod(_jwt_settings(method, naming), memory)
        case KubernetesSettings():
            return _kubernetes(method, naming, settings)
        case CertificateSettings():
            groups = method.groups_from
            return CertificateMethod(
                CertificateMethodSettings(
                    principal_from=[CertificateName(name) for name in method.principal_from],
                    groups_from=None if groups is None else CertificateGroups(groups),
                    naming=naming,
                ),
                None if settings.tls is None else settings.tls.client_ca,
                memory=memory,
            )
        case _:
            assert_never(method)


def _jwt_settings(method: JwtSettings, naming: Naming) -> JwtMethodSettings:
    parts = urlsplit(method.jwks)
    return JwtMethodSettings(
        jwks=Path(unquote(parts.path)) if parts.scheme == "file" else method.jwks,
        issuer=method.issuer,
        audiences=method.audience,
        principal_claim=method.principal_claim,
        groups_claim=method.groups_claim,
        algorithms=method.algorithms,
        leeway_seconds=method.leeway.total_seconds(),
        refresh_seconds=method.jwks_refresh.total_seconds(),
        rotation_seconds=method.jwks_rotation.total_seconds(),
        max_age_seconds=method.jwks_max_age.total_seconds(),
        ca_file=method.jwks_ca,
        naming=naming,
    )


def _kubernetes(method: KubernetesSettings, naming: Naming, settings: ServeSettings) -> Method:
    from gateway.authentication.kubernetes_tokens import KubernetesMethod  # noqa: PLC0415 - slow to load
    from gateway.authentication.kubernetes_tokens import KubernetesSettings as KubernetesMethodSettings  # noqa: PLC0415
    from workspace.kubernetes.connection import KubernetesConfigError, connect  # noqa: PLC0415

    try:
        connection = connect(settings.kubeconfig, settings.namespace, settings.instance)
    except KubernetesConfigError as error:
        raise SourceError(str(error)) from None
    reviews = KubernetesMethodSettings(method.audiences, method.cache.total_seconds(), naming)
    return KubernetesMethod(reviews, connection)


def check_listen_address(settings: ServeSettings) -> None:
    """Check that only clients of this host can reach a gateway without an authentication method.

    Raises:
        SettingError: If the gateway would trust clients of other hosts.
    """
    if settings.authentication:
        if settings.allow_unauthenticated:
            raise SettingError(
                "The settings authentication and allow_unauthenticated contradict each other: with an authentication "
                "method, every client needs credentials. Remove one of them."
            )
        return
    if not settings.allow_unauthenticated and not _is_loopback(settings.listen):
        raise SettingError(
            f"The address [{settings.listen}] of the setting listen can be reached from other hosts, but no "
            "authentication method is configured. Configure a method with the setting authentication, or listen on "
            "127.0.0.1. To let everybody act as any user, set --allow-unauthenticated."
        )


def log_risks(settings: ServeSettings) -> None:
    """Log a warning for each setting that lets others read tokens or act as other users."""
    if not settings.authentication:
        if settings.allow_unauthenticated:
            _log.warning("unauthenticated_clients_allowed", listen=settings.listen)
        return
    reads_tokens = any(method.kind != CERTIFICATE_METHOD for method in settings.authentication)
    if reads_tokens and settings.tls is None and not _is_loopback(settings.listen):
        _log.warning("tokens_not_encrypted", listen=settings.listen)
    for method in settings.authentication:
        if isinstance(method, JwtSettings):
            parts = urlsplit(method.jwks)
            if parts.scheme == "http" and not _is_loopback(f"{parts.netloc}"):
                _log.warning("jwks_not_encrypted", jwks=method.jwks)


def check_method_changes(before: ServeSettings, after: ServeSettings) -> None:
    """Check that a reload can change the authentication methods.

    A reload must not remove all methods. A configuration file that is empty, because it is being written, would
    otherwise let every client act as any user.

    Raises:
        SettingError: If the change needs a restart.
    """
    if before.authentication and not after.authentication:
        raise SettingError(
            "The setting authentication is missing or empty, so every client could act as any user. Restore the "
            "setting. To serve clients without authentication, restart Lodge."
        )
    if _certificate_use(before) != _certificate_use(after):
        raise SettingError(
            "The setting authentication changes how the gateway asks for client certificates. This needs a restart."
        )


def _certificate_use(settings: ServeSettings) -> tuple[bool, bool]:
    kinds = {method.kind for method in settings.authentication}
    return CERTIFICATE_METHOD in kinds, kinds == {CERTIFICATE_METHOD}


def _is_loopback(listen: str) -> bool:
    """Return whether an address can be reached only from this host.

    A host name must have only loopback addresses.
    """
    host = urlsplit(f"//{listen}").hostname or ""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return False
    addresses = {ipaddress.ip_address(str(address[0]).partition("%")[0]) for *_, address in found}
    return bool(addresses) and all(_without_mapping(address).is_loopback for address in addresses)


def _without_mapping(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


def method_list(methods: Methods) -> Sequence[Method]:
    """Return the methods in the order in which they are tried."""
    return tuple(methods.values())
