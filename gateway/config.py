"""The settings of a gateway replica."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from workspace.identifiers import Principal
from workspace.workspaces import Workspaces


@dataclass(frozen=True, slots=True)
class Limits:
    """Quotas of temporary tables. None means unlimited.

    Attributes:
        session_tables: Tables of one session.
        session_bytes: Bytes of all tables of one session.
        principal_tables: Tables of all sessions of one principal.
        principal_bytes: Bytes of all tables of all sessions of one principal.
    """

    session_tables: int | None = None
    session_bytes: int | None = None
    principal_tables: int | None = None
    principal_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class GatewayConfig:
    """The settings of one gateway replica.

    Attributes:
        listen: The address to listen on, ``host:port``. Port 0 lets the system choose.
        backends: The addresses of the shared backends, ``sc://host:port``.
        workspaces: All workspaces, including the default temporary workspace.
        session_idle_timeout_seconds: A session ends after this time without a request, an open stream or a running
            operation.
        lease_duration_seconds: How long a lease lasts. The same for all replicas and reapers of the workspace.
        backends_end_with_gateway: Whether the backends stop with this replica, so that its sessions end with it.
        max_message_bytes: The largest message that a client may send. Spark's own default is 128 MiB.
        log_query_text: Whether the log may contain the text of Lodge statements.
        limits: Quotas of temporary tables.
        detached_timeout_seconds: How long a Lodge statement runs on after its client went away.
        impersonation: Whether the session locations of a principal belong to the OS user of that name
            [temporary-tables §5.1.10.2].
        watch_records: Whether others may end a session by its record alone, so that this replica must watch records.
        principal_backends: The backend of each principal that has one of its own.
    """

    listen: str
    backends: tuple[str, ...]
    workspaces: Workspaces
    session_idle_timeout_seconds: float
    lease_duration_seconds: float
    backends_end_with_gateway: bool
    max_message_bytes: int = 128 * 1024 * 1024
    log_query_text: bool = False
    limits: Limits = field(default_factory=Limits)
    detached_timeout_seconds: float = 300.0
    impersonation: bool = False
    watch_records: bool = False
    principal_backends: Mapping[Principal, str] = field(default_factory=dict)
