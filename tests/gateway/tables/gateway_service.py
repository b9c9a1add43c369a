"""One address for several gateways, as a Kubernetes Service is."""

import threading
from typing import Self

from tests.conftest import LodgeProcess
from tests.workspace.kubernetes.tcp_proxy import TcpProxy

_HOLD_SECONDS = 60.0


class GatewayService:
    """A context manager that forwards connections to the gateway that is ready.

    It keeps new connections waiting while no gateway is ready. So a client does not need to back off, and the duration
    of a test does not depend on the client's retries.
    """

    def __init__(self, gateway: LodgeProcess) -> None:
        self._gateway = gateway
        self._is_ready = threading.Event()
        self._is_ready.set()
        self._proxy = TcpProxy(self._port_when_ready)

    def __enter__(self) -> Self:
        self._proxy.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._proxy.__exit__()

    @property
    def address(self) -> str:
        """The address for clients, ``sc://host:port``."""
        return f"sc://127.0.0.1:{self._proxy.port}"

    def close(self) -> None:
        """Keep new connections waiting."""
        self._is_ready.clear()

    def forward_to(self, gateway: LodgeProcess) -> None:
        """Forward all new connections to another gateway."""
        self._gateway = gateway
        self._is_ready.set()

    def _port_when_ready(self) -> int | None:
        if not self._is_ready.wait(_HOLD_SECONDS):
            return None
        return int(self._gateway.target.rpartition(":")[2])
