"""The command lines of Kubernetes' own control plane, on loopback or in the network of real nodes.

The API server creates its certificate authority and certificate at its first start, and keeps them over restarts. The
key of the certificate also signs the tokens of service accounts.
"""

import http.client
import json
import secrets
import ssl
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from http import HTTPStatus
from pathlib import Path

from tests.cluster.builds import program
from tests.cluster.kubeconfig import Server
from tests.cluster.ports import free_port
from tests.cluster.processes import ClusterError, Process

NODE_GRACE_SECONDS = 8
"""How long a node may be silent before it is not ready."""

_PROBE_SECONDS = 2.0
_ALARM_SECONDS = 60.0

_ENVIRONMENT = {"GOGC": "400"}
"""Garbage collection runs less often, which saves processor time and needs about 110 MB more for each API server."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a control plane runs, and for which nodes.

    Attributes:
        address: The address of its servers.
        prefix: Words before the commands of its programs, which run them there.
        options: Further options of the API server.
        users: Lines of the file with tokens: the token, the name of the user, its id, and its groups.
    """

    address: str
    prefix: Sequence[str] = ()
    options: Sequence[str] = ()
    users: Sequence[str] = ()


LOOPBACK = Place("127.0.0.1", options=("--service-cluster-ip-range=127.96.0.0/16", "--endpoint-reconciler-type=none"))
"""For simulated nodes, which have no network."""


class ControlPlane:
    """The processes of a control plane. Tests start them; the API server needs etcd.

    Attributes:
        server: The address of the API.
        kubeconfig: The kubeconfig file of the cluster's administrator.
    """

    def __init__(self, directory: Path, place: Place = LOOPBACK) -> None:
        self._directory = directory
        self._place = place
        self._certificates = directory / "certificates"
        self._certificate, self._key = self._certificates / "apiserver.crt", self._certificates / "apiserver.key"
        self._port = free_port()
        self.server = Server(f"https://{place.address}:{self._port}", self._certificate)
        self._administrator = secrets.token_urlsafe()
        self.kubeconfig = self.server.write_kubeconfig(directory / "kubeconfig", {"token": self._administrator})
        self._store = f"http://127.0.0.1:{free_port()}"

    @cached_property
    def etcd(self) -> Process:
        between_peers = f"http://127.0.0.1:{free_port()}"
        return self._process(
            "etcd",
            f"--data-dir={self._directory / 'etcd'}",
            f"--listen-client-urls={self._store}",
            f"--advertise-client-urls={self._store}",
            f"--listen-peer-urls={between_peers}",
            f"--initial-advertise-peer-urls={between_peers}",
            f"--initial-cluster=default={between_peers}",
            "--unsafe-no-fsync",
            "--heartbeat-interval=500",  # there is no other member; each heartbeat costs processor time
            "--election-timeout=5000",
            "--log-level=warn",
        )

    @contextmanager
    def read_only(self) -> Iterator[None]:
        """Make etcd refuse all writes within a block, as it does when its disk quota is used up. It answers reads."""
        self._set_alarm("ACTIVATE")
        try:
            yield
        finally:
            self._set_alarm("DEACTIVATE")

    def _set_alarm(self, action: str) -> None:
        body = json.dumps({"action": action, "memberID": "0", "alarm": "NOSPACE"}).encode()
        connection = http.client.HTTPConnection(self._store.removeprefix("http://"), timeout=_ALARM_SECONDS)
        connection.request("POST", "/v3/maintenance/alarm", body)
        answer = connection.getresponse()
        answer.read()
        connection.close()
        if answer.status != HTTPStatus.OK:
            raise ClusterError(f"etcd does not set an alarm: {answer.status} {answer.reason}")

    @cached_property
    def api_server(self) -> Process:
        tokens = self._directory / "tokens.csv"
        tokens.touch(mode=0o600)
        administrator = f"{self._administrator},administrator,administrator,system:masters"
        tokens.write_text("\n".join([administrator, *self._place.users]))
        return self._server(
            "kube-apiserver",
            self._port,
            "/readyz",
            self._certificate,
            f"--etcd-servers={self._store}",
            f"--advertise-address={self._place.address}",
            f"--token-auth-file={tokens}",
            "--authorization-mode=Node,RBAC",
            f"--service-account-key-file={self._key}",
            f"--service-account-signing-key-file={self._key}",
            "--service-account-issuer=https://kubernetes.default.svc",
            "--etcd-count-metric-poll-period=0",  # counts all objects for metrics that no test reads
            "--etcd-db-metric-poll-interval=0",
            *self._place.options,
        )

    @cached_property
    def controller_manager(self) -> Process:
        return self._server(
            "kube-controller-manager",
            free_port(),
            "/healthz",
            self._certificates / "kube-controller-manager.crt",
            f"--kubeconfig={self.kubeconfig}",
            "--leader-elect=false",
            "--controllers=*,-nodeipam",
            "--node-monitor-period=1s",
            f"--node-monitor-grace-period={NODE_GRACE_SECONDS}s",
            "--node-eviction-rate=10",  # by default, the second node that fails would wait for 10 s
            f"--root-ca-file={self._certificate}",
            f"--service-account-private-key-file={self._key}",
        )

    @cached_property
    def scheduler(self) -> Process:
        return self._server(
            "kube-scheduler",
            free_port(),
            "/healthz",
            self._certificates / "kube-scheduler.crt",
            f"--kubeconfig={self.kubeconfig}",
            "--leader-elect=false",
        )

    def _server(self, name: str, port: int, readiness: str, certificate: Path, *arguments: str) -> Process:
        """Return a process whose readiness is checked by HTTPS."""
        return self._process(
            name,
            f"--bind-address={self._place.address}",
            f"--secure-port={port}",
            f"--cert-dir={self._certificates}",
            *arguments,
            is_ready=lambda: _answers(self._place.address, port, readiness, certificate),
        )

    def _process(self, name: str, *arguments: str, is_ready: Callable[[], bool] = lambda: True) -> Process:
        return Process(
            [*self._place.prefix, program(name), *arguments],
            self._directory / f"{name}.log",
            is_ready=is_ready,
            environment=_ENVIRONMENT,
        )


def _answers(address: str, port: int, path: str, certificate: Path) -> bool:
    """Return whether the server reports that it is ready. Its certificate is verified."""
    try:
        context = ssl.create_default_context(cafile=certificate)
        connection = http.client.HTTPSConnection(address, port, timeout=_PROBE_SECONDS, context=context)
        try:
            connection.request("GET", path)
            return connection.getresponse().status == http.HTTPStatus.OK
        finally:
            connection.close()
    except (OSError, http.client.HTTPException):
        return False
