"""The definition of ConnectSession is brought up to date before an installation, with few permissions."""

import copy
import subprocess
import sys
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes import config
from kubernetes.client import ApiException, ApiextensionsV1Api
from kubernetes.dynamic import DynamicClient

from tests.cluster.accounts import ServiceAccount
from tests.cluster.cluster import Cluster
from tests.helm.chart import CHART, MINIMAL, Helm, Manifest, of_kind

pytestmark = pytest.mark.slow

NAME = "connectsessions.sparklodge.io"
REVISION = "sparklodge.io/revision"
FILE = CHART / "crds" / "connectsessions.yaml"


@pytest.fixture
def definition(chart_cluster: Cluster) -> Iterator[Manifest]:
    """The definition of the chart, which the cluster has again at the end of the test."""
    found: Manifest = yaml.safe_load(FILE.read_text())
    chart_cluster.apply([found])
    yield found
    replace(chart_cluster, found)


@pytest.fixture
def account(chart_cluster: Cluster, helm: Helm) -> ServiceAccount:
    """The account of the Job, with the permissions that the chart gives it."""
    namespace = chart_cluster.namespace("definition")
    manifests = helm.template(MINIMAL, namespace=namespace)
    kinds = ("ServiceAccount", "ClusterRole", "ClusterRoleBinding")
    chart_cluster.apply(
        [each for kind in kinds for each in of_kind(manifests, kind) if "definition" in each["metadata"]["name"]],
        namespace,
    )
    return chart_cluster.service_account(namespace, "lodge-definition")


def replace(cluster: Cluster, definition: Manifest) -> None:
    api = ApiextensionsV1Api(cluster.client)
    version = api.read_custom_resource_definition(NAME).metadata.resource_version
    body = copy.deepcopy(dict(definition))
    body["metadata"]["resourceVersion"] = version
    api.replace_custom_resource_definition(NAME, body)


def columns(cluster: Cluster) -> list[str]:
    found = ApiextensionsV1Api(cluster.client).read_custom_resource_definition(NAME)
    return [column.name for column in found.spec.versions[0].additional_printer_columns]


def run(account: ServiceAccount, file: Path = FILE) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "lodge", "definition", str(file), "--kubeconfig", str(account.kubeconfig)]
    return subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)


def changed(definition: Manifest, revision: str | None) -> dict[str, Any]:
    """Return the definition with one column less, and another revision."""
    older = copy.deepcopy(dict(definition))
    older["spec"]["versions"][0]["additionalPrinterColumns"].pop()
    annotations = older["metadata"]["annotations"]
    del annotations[REVISION]
    if revision is not None:
        annotations[REVISION] = revision
    return older


def test_server_keeps_each_field_of_the_definition(chart_cluster: Cluster, definition: Manifest) -> None:
    """Otherwise, a second `helm install` with the same definition ends with a conflict."""
    api = DynamicClient(chart_cluster.client).resources.get(kind="CustomResourceDefinition")
    stored = api.get(name=NAME).to_dict()["spec"]
    assert stored["versions"] == definition["spec"]["versions"]


def test_job_replaces_an_older_definition(
    chart_cluster: Cluster, account: ServiceAccount, definition: Manifest
) -> None:
    expected = columns(chart_cluster)
    replace(chart_cluster, changed(definition, None))
    assert columns(chart_cluster) == expected[:-1]
    result = run(account)
    assert (result.returncode, result.stderr) == (0, "")
    revision = definition["metadata"]["annotations"][REVISION]
    assert result.stdout == f"Applied revision {revision} of the definition [{NAME}].\n"
    assert columns(chart_cluster) == expected


def test_job_keeps_a_later_definition(chart_cluster: Cluster, account: ServiceAccount, definition: Manifest) -> None:
    replace(chart_cluster, changed(definition, "7"))
    before = columns(chart_cluster)
    result = run(account)
    assert result.returncode == 0
    assert "has the later revision 7, and stays as it is" in result.stdout
    assert columns(chart_cluster) == before


def test_job_may_change_nothing_else(account: ServiceAccount, definition: Manifest) -> None:
    api = ApiextensionsV1Api(config.new_client_from_config(str(account.kubeconfig)))
    for attempt in (
        lambda: api.list_custom_resource_definition(),
        lambda: api.delete_custom_resource_definition(NAME),
        lambda: api.patch_custom_resource_definition("others.example.com", {}),
        lambda: api.create_custom_resource_definition(definition),
    ):
        with pytest.raises(ApiException) as caught:
            attempt()
        assert caught.value.status == HTTPStatus.FORBIDDEN


def test_refusals_name_the_definition(chart_cluster: Cluster, account: ServiceAccount, tmp_path: Path) -> None:
    other = tmp_path / "other.yaml"
    other.write_text("kind: ConfigMap")
    refused = run(account, other)
    assert refused.returncode == 1
    assert f"[{other}] is not the definition [{NAME}]" in refused.stderr
    nobody = chart_cluster.service_account(account.namespace, "nobody")
    forbidden = run(nobody)
    assert forbidden.returncode == 1
    assert f"The definition [{NAME}] was not applied: 403 Forbidden" in forbidden.stderr
