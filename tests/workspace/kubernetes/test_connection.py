"""Configurations of the API server, and credentials that change (guarantees: workspace.kubernetes.connection)."""

import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml
from kubernetes.client import CustomObjectsApi, VersionApi
from kubernetes.config import incluster_config, kube_config

from tests.cluster.accounts import REVOKED_SECONDS, ServiceAccount
from tests.cluster.cluster import Cluster
from tests.fixture_types import WaitUntil
from tests.records import a_record
from tests.workspace.kubernetes.conftest import RULES
from workspace.kubernetes import connection as connections
from workspace.kubernetes.api_server import RetryPolicy
from workspace.kubernetes.connection import Connection, KubernetesConfigError, connect
from workspace.kubernetes.session_records import KubernetesSessionRecords
from workspace.record_store import RecordsUnavailableError

DEADLINE_SECONDS = 60
IMPATIENT = RetryPolicy(repeat_seconds=0.0)


@pytest.fixture
def own_account(session_cluster: Cluster, session_namespace: str, instance: str) -> ServiceAccount:
    """Return an account that no other test uses."""
    account = session_cluster.service_account(session_namespace, instance)
    account.allow(*RULES)
    return account


@pytest.fixture
def in_pod(
    own_account: ServiceAccount, session_cluster: Cluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Set up the environment of a pod of the account."""
    address = urlsplit(session_cluster.server.url)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", str(address.hostname))
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(address.port))
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(own_account.token_file))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(session_cluster.server.ca_file))
    (tmp_path / "namespace").write_text(own_account.namespace)
    monkeypatch.setattr(connections, "_NAMESPACE_FILE", tmp_path / "namespace")


def is_refused(connection: Connection) -> bool:
    try:
        KubernetesSessionRecords(connection, IMPATIENT).list()
    except RecordsUnavailableError as error:
        assert "401 Unauthorized" in str(error)
        assert "Renew the pod's token" in str(error)
        return True
    return False


def test_kubeconfig_names_server_and_namespace(account: ServiceAccount) -> None:
    connection = connect(account.kubeconfig, None, "lodge")
    assert connection.namespace == account.namespace
    assert VersionApi(connection.api_client).get_code().major
    assert connect(account.kubeconfig, "other", "lodge").namespace == "other"


def test_kubeconfig_of_the_environment_is_the_default(account: ServiceAccount, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setattr(kube_config, "KUBE_CONFIG_DEFAULT_LOCATION", str(account.kubeconfig))
    assert connect(None, None, "lodge").namespace == account.namespace


def test_service_account_is_the_default_in_a_pod(in_pod: None, own_account: ServiceAccount) -> None:
    connection = connect(None, None, "lodge")
    assert connection.namespace == own_account.namespace
    assert not KubernetesSessionRecords(connection).list()


@pytest.mark.parametrize(
    "content",
    [
        "",
        "no: [yaml",
        "just text",
        "kind: Config",
        "current-context: none\ncontexts: []\nclusters: []\nusers: []",
    ],
)
def test_error_names_an_invalid_kubeconfig(tmp_path: Path, content: str) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(content)
    with pytest.raises(KubernetesConfigError, match=rf"\[{kubeconfig}\] cannot be used: .*--kubeconfig"):
        connect(kubeconfig, None, "lodge")


def test_error_names_a_missing_kubeconfig(tmp_path: Path) -> None:
    with pytest.raises(KubernetesConfigError, match=rf"\[{tmp_path}/none\] cannot be used"):
        connect(tmp_path / "none", None, "lodge")


def test_error_in_a_pod_without_token_has_a_remedy(in_pod: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", "/nowhere/token")
    with pytest.raises(KubernetesConfigError, match="automountServiceAccountToken"):
        connect(None, None, "lodge")


def test_token_file_may_end_with_a_newline(own_account: ServiceAccount) -> None:
    own_account.token_file.write_text(f"{own_account.token}\n")
    assert not KubernetesSessionRecords(connect(own_account.kubeconfig, None, "lodge")).list()


@pytest.mark.slow
@pytest.mark.parametrize("where", ["file", "pod"])
def test_guarantee_1_replaced_token_is_reloaded_without_a_failure(
    in_pod: None, own_account: ServiceAccount, where: str
) -> None:
    connection = connect(own_account.kubeconfig if where == "file" else None, None, "lodge")
    records = KubernetesSessionRecords(connection, IMPATIENT)
    old = connection.api_client.configuration.get_api_key_with_prefix("BearerToken")
    assert not records.list()
    own_account.rotate()
    deadline_seconds = time.monotonic() + REVOKED_SECONDS + DEADLINE_SECONDS
    while connection.api_client.configuration.get_api_key_with_prefix("BearerToken") == old:
        assert time.monotonic() < deadline_seconds
        assert not records.list()
        time.sleep(0.2)
    assert not records.list()


@pytest.mark.slow
def test_guarantee_1_expired_token_makes_records_unavailable_until_replaced(
    session_cluster: Cluster, own_account: ServiceAccount, instance: str, wait_until: WaitUntil
) -> None:
    connection = connect(own_account.kubeconfig, None, instance)
    records = KubernetesSessionRecords(connection, IMPATIENT)
    stored = records.create(a_record())
    own_account.revoke()
    wait_until(lambda: is_refused(connection), "the token is refused")
    with pytest.raises(RecordsUnavailableError, match="401"):
        records.find(stored.record.session_uuid)
    with pytest.raises(RecordsUnavailableError, match="401"):
        records.read(stored.record.name)
    fresh = session_cluster.service_account(own_account.namespace, own_account.name)
    own_account.token_file.write_text(fresh.token)
    assert list(records.list()) == [stored]


def test_guarantee_1_changed_kubeconfig_is_reloaded(
    session_cluster: Cluster, own_account: ServiceAccount, tmp_path: Path
) -> None:
    path = session_cluster.server.write_kubeconfig(tmp_path / "kubeconfig", {"token": "old"}, own_account.namespace)
    connection = connect(path, None, "lodge")
    assert is_refused(connection)
    content = yaml.safe_load(path.read_text())
    content["users"][0]["user"] = {"token": own_account.token}
    path.write_text(yaml.safe_dump(content))
    assert not KubernetesSessionRecords(connection).list()
    path.write_text("")
    assert not KubernetesSessionRecords(connection).list(), "what was read before counts while the file is written"


def test_guarantee_2_every_request_has_a_timeout(
    session_cluster: Cluster, account: ServiceAccount, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "REQUEST_TIMEOUT_SECONDS", (0.5, 0.5))
    connection = connect(account.kubeconfig, None, "lodge")
    with session_cluster.api_server.paused(), pytest.raises(Exception, match="timed out"):
        CustomObjectsApi(connection.api_client).list_namespaced_custom_object(
            "sparklodge.io", "v1alpha1", account.namespace, "connectsessions"
        )
