"""Session records, leases and root ids on a real API server; each test has its own instance in one namespace.

Requests for records and leases run as an account with only the rights that are listed here.
"""

import secrets
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml

from tests.cluster.accounts import ServiceAccount
from tests.cluster.cluster import Cluster
from tests.cluster.kubeconfig import Server
from tests.workspace.kubernetes.tcp_proxy import TcpProxy
from workspace.kubernetes.connect_session_objects import GROUP, PLURAL
from workspace.kubernetes.connection import Connection, connect
from workspace.kubernetes.leases import KubernetesLeases
from workspace.kubernetes.root_ids import KubernetesRootIds
from workspace.kubernetes.session_records import KubernetesSessionRecords
from workspace.leases import Leases
from workspace.record_store import SessionRecords

DEFINITION = Path(__file__).parents[3] / "helm" / "lodge" / "crds" / "connectsessions.yaml"
RULES = (
    {
        "apiGroups": [GROUP],
        "resources": [PLURAL],
        "verbs": ["get", "list", "watch", "create", "patch", "delete"],
    },
    {
        "apiGroups": ["coordination.k8s.io"],
        "resources": ["leases"],
        "verbs": ["list", "create", "patch", "delete"],
    },
    {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "create", "update"]},
)


@pytest.fixture(scope="session")
def session_cluster(cluster: Cluster) -> Cluster:
    """Return the cluster, with the definition of session records."""
    cluster.apply([yaml.safe_load(DEFINITION.read_text())])
    return cluster


@pytest.fixture(scope="session")
def session_namespace(session_cluster: Cluster) -> str:
    """Return the namespace that all tests share, each with its own instance.

    It exists as long as the cluster. It could not be deleted while records of tests have their finalizers.
    """
    return session_cluster.namespace("sessions")


@pytest.fixture
def instance() -> str:
    return f"lodge-{secrets.token_hex(4)}"


@pytest.fixture(scope="session")
def account(session_cluster: Cluster, session_namespace: str) -> ServiceAccount:
    """Return an account with exactly the rights that records, leases and root ids need together."""
    account = session_cluster.service_account(session_namespace, "lodge")
    account.allow(*RULES)
    return account


@pytest.fixture
def connection(account: ServiceAccount, instance: str) -> Connection:
    return connect(account.kubeconfig, None, instance)


@pytest.fixture
def administrator(session_cluster: Cluster, session_namespace: str, instance: str) -> Connection:
    """Return a connection with all rights, like that of an operator."""
    return connect(session_cluster.kubeconfig, session_namespace, instance)


@pytest.fixture
def open_records(account: ServiceAccount, instance: str) -> Callable[[], SessionRecords]:
    return lambda: KubernetesSessionRecords(connect(account.kubeconfig, None, instance))


@pytest.fixture
def open_leases(account: ServiceAccount, instance: str) -> Callable[[], Leases]:
    return lambda: KubernetesLeases(connect(account.kubeconfig, None, instance))


@pytest.fixture
def proxy(session_cluster: Cluster) -> Iterator[TcpProxy]:
    """Return a proxy of the API server, which :func:`proxied` uses."""
    port = urlsplit(session_cluster.server.url).port
    assert port is not None
    with TcpProxy(port) as proxy:
        yield proxy


@pytest.fixture
def proxied(
    session_cluster: Cluster, account: ServiceAccount, proxy: TcpProxy, instance: str, tmp_path: Path
) -> Connection:
    """Return a connection through the proxy, with the rights of the account."""
    server = Server(f"https://127.0.0.1:{proxy.port}", session_cluster.server.ca_file)
    user = {"tokenFile": str(account.token_file)}
    return connect(server.write_kubeconfig(tmp_path / "proxied", user, account.namespace), None, instance)


@pytest.fixture
def root_ids(connection: Connection) -> KubernetesRootIds:
    return KubernetesRootIds(connection)


@pytest.fixture
def outage(session_cluster: Cluster) -> Callable[[], AbstractContextManager[None]]:
    """Return a context manager that makes records and leases unreachable."""
    return session_cluster.api_server.stopped
