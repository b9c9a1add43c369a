"""What a gateway replica is told when it starts."""

from dataclasses import dataclass

from workspace.workspaces import Workspaces


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
    """

    listen: str
    backends: tuple[str, ...]
    workspaces: Workspaces
    session_idle_timeout_seconds: float
    lease_duration_seconds: float
    backends_end_with_gateway: bool
    max_message_bytes: int = 128 * 1024 * 1024
    log_query_text: bool = False
