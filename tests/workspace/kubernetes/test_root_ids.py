"""Ids of roots in a ConfigMap (guarantees: workspace.kubernetes.root_ids)."""

import re
from concurrent.futures import ThreadPoolExecutor

import pytest
from kubernetes.client import CoreV1Api

from tests.cluster.accounts import ServiceAccount
from workspace.kubernetes.connection import Connection, connect
from workspace.kubernetes.root_ids import KubernetesRootIds
from workspace.record_store import RecordsUnavailableError


def test_id_is_recorded_once_for_each_root(root_ids: KubernetesRootIds) -> None:
    assert root_ids.expected("/data") is None
    assert root_ids.record("/data", "1") == "1"
    assert root_ids.expected("/more") is None
    assert root_ids.record("s3://bucket/\udcff", "2") == "2"
    assert root_ids.record("/data", "3") == "1"
    assert root_ids.expected("/data") == "1"
    assert root_ids.expected("s3://bucket/\udcff") == "2"


def test_guarantee_1_one_of_many_concurrent_ids_wins(account: ServiceAccount, instance: str) -> None:
    def record(number: int) -> tuple[str, str]:
        root_ids = KubernetesRootIds(connect(account.kubeconfig, None, instance))
        return root_ids.record("/data", str(number)), root_ids.record(f"/data/{number % 3}", str(number))

    with ThreadPoolExecutor(12) as threads:
        recorded = list(threads.map(record, range(12)))
    assert len({first for first, _ in recorded}) == 1
    assert len({second for _, second in recorded}) == 3


def test_guarantee_1_records_keep_one_id_that_names_their_namespace(
    account: ServiceAccount, instance: str, administrator: Connection
) -> None:
    def asked(number: int) -> str:
        root_ids = KubernetesRootIds(connect(account.kubeconfig, None, instance))
        root_ids.record(f"/data/{number}", "1")
        return root_ids.records_id()

    with ThreadPoolExecutor(6) as threads:
        (records_id,) = set(threads.map(asked, range(6)))
    assert re.fullmatch(rf"kubernetes/{account.namespace}/{instance}/[0-9a-f]{{32}}", records_id)
    found = CoreV1Api(administrator.api_client).read_namespaced_config_map(f"{instance}-roots", account.namespace)
    assert found.data["records"] == records_id
    assert KubernetesRootIds(connect(account.kubeconfig, None, f"{instance}-b")).records_id() != records_id


def test_lodges_in_one_namespace_have_separate_ids(account: ServiceAccount, instance: str) -> None:
    one = KubernetesRootIds(connect(account.kubeconfig, None, instance))
    other = KubernetesRootIds(connect(account.kubeconfig, None, f"{instance}-b"))
    one.record("/data", "1")
    assert other.expected("/data") is None


def test_config_map_shows_the_root_and_errors_name_damaged_entries(
    root_ids: KubernetesRootIds, administrator: Connection
) -> None:
    root_ids.record("/data", "1")
    name = f"{administrator.instance}-roots"
    core = CoreV1Api(administrator.api_client)
    found = core.read_namespaced_config_map(name, administrator.namespace)
    ((key, entry),) = found.data.items()
    assert entry == '{"root": "/data", "id": "1"}'
    assert found.metadata.labels["app.kubernetes.io/instance"] == administrator.instance
    core.patch_namespaced_config_map(name, administrator.namespace, {"data": {key: "edited"}})
    with pytest.raises(RecordsUnavailableError, match=rf"{key} of the ConfigMap {name} is damaged"):
        root_ids.expected("/data")
