"""The chart's permissions, accounts and configuration, for use without pods.

Gateways and reapers must work with exactly the permissions and settings that an operator gets.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.cluster.accounts import ServiceAccount
from tests.cluster.cluster import Cluster
from tests.helm.chart import Helm, configuration, find_object

_WITHOUT_PODS = frozenset({"Deployment", "PodDisruptionBudget"})


@dataclass(frozen=True, slots=True)
class InstalledChart:
    """The parts of an installed chart that processes need.

    Attributes:
        instance: The name of this Lodge.
        config_file: The file for ``--config``, as pods would mount it.
        accounts: The service accounts of ``gateway`` and ``reaper``.
        labels: The labels of their pods.
    """

    instance: str
    config_file: Path
    accounts: Mapping[str, ServiceAccount]
    labels: Mapping[str, Mapping[str, str]]


def install(
    cluster: Cluster, namespace: str, directory: Path, *, backend: str, workspace: Path, config: Mapping[str, Any]
) -> InstalledChart:
    """Apply all objects of the chart except those that start pods.

    Args:
        directory: The directory of the configuration file.
        backend: The address of Spark.
        workspace: The directory of the temporary workspace.
        config: The chart's value ``config``.
    """
    values = {
        "backend": {"addresses": [backend]},
        "config": dict(config),
        "volume": {"existingClaim": "storage", "mountPath": str(workspace)},
        "workspaces": {"dfs.tmp": workspace.as_uri()},
    }
    manifests = Helm(directory).template(values, "--include-crds", namespace=namespace)
    cluster.apply((each for each in manifests if each["kind"] not in _WITHOUT_PODS), namespace)
    config_file = directory / "lodge.yaml"
    config_file.write_text(configuration(manifests))
    accounts, labels = {}, {}
    for component in ("gateway", "reaper"):
        template = find_object(manifests, "Deployment", f"lodge-{component}")["spec"]["template"]
        accounts[component] = cluster.service_account(namespace, template["spec"]["serviceAccountName"])
        labels[component] = template["metadata"]["labels"]
    return InstalledChart("lodge", config_file, accounts, labels)
