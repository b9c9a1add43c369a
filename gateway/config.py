"""The configuration of a gateway replica."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from gateway.admission.limits import AdmissionLimits
from gateway.connections.backend_channel import KEEPALIVE_SECONDS
from gateway.connections.backend_credentials import BackendAccess
from gateway.connections.listener import ConnectionLimits, ServerTls
from workspace.identifiers import Principal
from workspace.workspaces import Workspaces


@dataclass(frozen=True, slots=True)
class Limits:
    """Quotas for temporary tables. None means unlimited.

    Attributes:
        session_tables: Maximum number of tables in one session.
        session_bytes: Maximum total size of all tables in one session.
        principal_tables: Maximum number of tables in all sessions of one principal.
        principal_bytes: Maximum total size of all tables in all sessions of one principal.
    """

    session_tables: int | None = None
    session_bytes: int | None = None
    principal_tables: int | None = None
    principal_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class GatewayConfig:
    """The configuration of one gateway replica.

    Attributes:
        listen: The address to listen on, in the form ``host:port``. With port 0, the operating system selects a free
            port.
        backends: The addresses of the shared backends, in the form ``sc://host:port``.
        workspaces: All workspaces, including the default temporary workspace.
        session_idle_timeout_seconds: How long a session can exist without a request, an open stream or a running
            operation before it ends.
        lease_duration_seconds: How long a lease is valid after each renewal. All replicas and reapers of a workspace
            must use the same value.
        has_own_backend: Whether only this gateway, and those that replace its process, can use the backend.
        max_message_bytes: The maximum size of a message from a client. The default is the same as in Spark, 128 MiB.
        max_plan_bytes: The maximum size of a decompressed plan.
        log_query_text: Whether log events may include the text of Lodge statements.
        spark_readers: Whether Spark's own reader may read raw files whose schema does not drift.
        limits: The quotas for temporary tables.
        admission: The limits on what clients use at the same time.
        detached_timeout_seconds: How long a Lodge statement continues to run after its client
            disconnects.
        impersonation: Whether the session locations of a principal belong to the OS user with the same name
            [temporary-tables §5.1.10.2].
        admins: The administrators: principals, and groups in the form ``group:NAME``.
        principal_backends: The dedicated backends of principals, by principal.
        backend_access: How the replica authenticates to its backends.
        backend_keepalive_seconds: How long a connection to a backend is silent before the replica sends a ping.
        connections: The limits for connections of clients.
        tls: The TLS settings for clients. None for connections without TLS.
    """

    listen: str
    backends: tuple[str, ...]
    workspaces: Workspaces
    session_idle_timeout_seconds: float
    lease_duration_seconds: float
    has_own_backend: bool = False
    max_message_bytes: int = 128 * 1024 * 1024
    max_plan_bytes: int = 64 * 1024 * 1024
    log_query_text: bool = False
    spark_readers: bool = True
    limits: Limits = field(default_factory=Limits)
    admission: AdmissionLimits = field(default_factory=AdmissionLimits)
    detached_timeout_seconds: float = 300.0
    impersonation: bool = False
    admins: tuple[str, ...] = ()
    principal_backends: Mapping[Principal, str] = field(default_factory=dict)
    backend_access: BackendAccess = field(default_factory=BackendAccess)
    backend_keepalive_seconds: float = KEEPALIVE_SECONDS
    connections: ConnectionLimits = field(default_factory=ConnectionLimits)
    tls: ServerTls | None = None
