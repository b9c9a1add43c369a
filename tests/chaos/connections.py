"""Unmodified PySpark clients, connected as to a Service with several gateways, with TLS and a token."""

import uuid
from collections.abc import Sequence

import grpc
from pyspark.sql.connect.client import DefaultChannelBuilder
from pyspark.sql.connect.client.retries import DefaultPolicy
from pyspark.sql.connect.session import SparkSession

from tests.chaos.replicas import Replica
from tests.workspace.kubernetes.tcp_proxy import TcpProxy

_BACK_OFF = {"initial_backoff": 50, "backoff_multiplier": 2.0, "max_backoff": 1000, "jitter": 0}
_LONGEST_RECONNECT_MILLISECONDS = 500


class SeveralAddresses(DefaultChannelBuilder):
    """Connects to the first address that answers, and then to the next one.

    Args:
        url: The URL, whose address is not used.
        addresses: The addresses, each as ``host:port``. Their certificates are for ``localhost``.
        authority: The certificate authority, as PEM.
        token: The token of the client.
    """

    def __init__(self, url: str, addresses: Sequence[str], authority: bytes, token: str) -> None:
        super().__init__(url)
        self._addresses = addresses
        self._credentials = grpc.composite_channel_credentials(
            grpc.ssl_channel_credentials(authority), grpc.access_token_call_credentials(token)
        )
        for option in ("initial", "min", "max"):
            self.setChannelOption(f"grpc.{option}_reconnect_backoff_ms", _LONGEST_RECONNECT_MILLISECONDS)
        self.setChannelOption("grpc.use_local_subchannel_pool", 1)
        self.setChannelOption("grpc.ssl_target_name_override", "localhost")

    @property
    def endpoint(self) -> str:
        return f"ipv4:{','.join(self._addresses)}"

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
    installed = gateways[0].environment.installed
    builder = SeveralAddresses(
        f"sc://127.0.0.1/;session_id={session_id or uuid.uuid4()}",
        [f"127.0.0.1:{port}" for port in ports],
        installed.authority,
        installed.token(user),
    )
    return create_session(builder, patience_seconds)


def create_session(builder: SeveralAddresses, patience_seconds: float) -> SparkSession:
    """Return a client session, before its first request, that retries for some time without an answer."""
    session = SparkSession.builder.channelBuilder(builder).create()
    session.client.set_retry_policies([DefaultPolicy(max_retries=round(patience_seconds) + 4, **_BACK_OFF)])
    return session


def connect_to_backend(address: str) -> SparkSession:
    """Return a session at Spark itself, without Lodge."""
    return SparkSession.builder.remote(address).create()
