"""Unmodified PySpark clients, connected as to a Service with several gateways, with TLS and a token."""

import uuid
from collections.abc import Sequence

import grpc
from pyspark.sql.connect.client import DefaultChannelBuilder
from pyspark.sql.connect.client.retries import DefaultPolicy
from pyspark.sql.connect.session import SparkSession

from tests.chaos.chart import InstalledChart
from tests.chaos.replicas import Replica
from tests.workspace.kubernetes.tcp_proxy import TcpProxy

_BACK_OFF = {"initial_backoff": 50, "backoff_multiplier": 2.0, "max_backoff": 1000, "jitter": 0}
_LONGEST_RECONNECT_MILLISECONDS = 500


class _SeveralGateways(DefaultChannelBuilder):
    """Connects to the first gateway that answers, and then to the next one."""

    def __init__(self, url: str, ports: Sequence[int], installed: InstalledChart, user: str) -> None:
        super().__init__(url)
        self._ports = ports
        self._credentials = grpc.composite_channel_credentials(
            grpc.ssl_channel_credentials(installed.authority),
            grpc.access_token_call_credentials(installed.token(user)),
        )
        for option in ("initial", "min", "max"):
            self.setChannelOption(f"grpc.{option}_reconnect_backoff_ms", _LONGEST_RECONNECT_MILLISECONDS)
        self.setChannelOption("grpc.use_local_subchannel_pool", 1)
        self.setChannelOption("grpc.ssl_target_name_override", "localhost")

    @property
    def endpoint(self) -> str:
        return "ipv4:" + ",".join(f"127.0.0.1:{port}" for port in self._ports)

    def toChannel(self) -> grpc.Channel:  # noqa: N802 - PySpark's name
        return self._secure_channel(self.endpoint, self._credentials)


def connect(
    gateways: Sequence[Replica],
    *,
    user: str,
    session_id: str | None = None,
    patience_seconds: float = 20.0,
    balancer: TcpProxy | None = None,
) -> SparkSession:
    """Return a client session, before its first request.

    Args:
        gateways: The gateways in order of preference.
        user: The user's name.
        session_id: The id of an existing session; None for a new one.
        patience_seconds: How long the client retries without an answer.
        balancer: A load balancer of the gateways. The client then connects only to this.
    """
    ports = [each.port for each in ([gateway.proxy for gateway in gateways] if balancer is None else [balancer])]
    url = f"sc://127.0.0.1/;session_id={session_id or uuid.uuid4()}"
    builder = _SeveralGateways(url, ports, gateways[0].environment.installed, user)
    session = SparkSession.builder.channelBuilder(builder).create()
    session.client.set_retry_policies([DefaultPolicy(max_retries=round(patience_seconds) + 4, **_BACK_OFF)])
    return session


def connect_to_backend(address: str) -> SparkSession:
    """Return a session at Spark itself, without Lodge."""
    return SparkSession.builder.remote(address).create()
