"""What a gateway replica is told when it starts."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from workspace.records import Principal
from workspace.workspaces import Workspaces


@dataclass(frozen=True, slots=True)
class Limits:
    """How much temporary tables there may be; None is no limit.

    Attributes:
        session_tables: Tables of a session.
        session_bytes: Bytes of all tables of a session.
        principal_tables: Tables of a principal, in all its sessions together.
        principal_bytes: Bytes of all tables of a principal.
    """

    session_tables: int | None = None
    session_bytes: int | None = None
    principal_tables: int | None = None
    principal_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class GatewayConfig:
    """The settings of one gateway replica.

    Attributes:
        listen: Address to listen on, ``host:port``; port 0 lets the system choose.
        backends: Addresses of the backends, ``sc://host:port``; at least one.
        workspaces: All workspaces, with the default temporary one.
        session_idle_timeout_seconds: A session without a request, an open stream or a running operation for so
            long is ended.
        lease_duration_seconds: As for all replicas and reapers of the workspace.
        backends_end_with_gateway: The backends stop when this replica does, so its sessions end with it.
        max_message_bytes: The largest message taken from a client; Spark's own default is 128 MiB.
        log_query_text: Whether the text of statements that Lodge answers may stand in log lines.
        limits: Of temporary tables.
        detached_timeout_seconds: How long a statement that Lodge answers runs on after its client went away.
        impersonation: Each principal's session locations belong to the OS user of its name (seed 001, 5.1.10.2).
        watch_records: Whether others end sessions by their records alone, so that this replica must follow them.
        principal_backends: The backend of all statements of a principal, by principal.
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
