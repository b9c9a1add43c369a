"""Releases of the chart in one namespace of a real cluster."""

import base64
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from kubernetes.client import CoreV1Api, V1Pod

from tests.cluster.cluster import Cluster
from tests.helm.chart import CHART, MINIMAL, Helm, Values

CLAIM = "files"
TIMEOUT_SECONDS = 180
RESTRICTED = {
    "pod-security.kubernetes.io/enforce": "restricted",
    "pod-security.kubernetes.io/enforce-version": "latest",
}


class Releases:
    """A namespace for helm's releases, with a claim, for restricted pods only."""

    def __init__(self, cluster: Cluster, directory: Path) -> None:
        self.cluster = cluster
        self.namespace = cluster.namespace("releases")
        self.core = CoreV1Api(cluster.client)
        self.core.patch_namespace(self.namespace, {"metadata": {"labels": RESTRICTED}})
        self._helm = Helm(directory, cluster.kubeconfig)
        cluster.apply(_volume(self.namespace), self.namespace)

    def install(self, name: str = "lodge", values: Values = MINIMAL) -> str:
        return self.helm("install", name, CHART, "--wait", values=values)

    def upgrade(self, values: Values, *, timeout_seconds: int = TIMEOUT_SECONDS) -> str:
        return self.helm("upgrade", "lodge", CHART, "--wait", values=values, timeout_seconds=timeout_seconds)

    def helm(self, *arguments: str | Path, values: Values | None = None, timeout_seconds: int = TIMEOUT_SECONDS) -> str:
        timeout = ("--timeout", f"{timeout_seconds}s")
        return self._helm.run(*arguments, "--namespace", self.namespace, *timeout, values=values)

    def manifest(self) -> str:
        """Return the objects of the release as YAML."""
        return self._helm.run("get", "manifest", "lodge", "--namespace", self.namespace)

    def pods(self, component: str, release: str = "lodge") -> Sequence[V1Pod]:
        """Return the pods that are not terminating."""
        selector = f"app.kubernetes.io/instance={release},app.kubernetes.io/component={component}"
        found = self.core.list_namespaced_pod(self.namespace, label_selector=selector).items
        return [pod for pod in found if pod.metadata.deletion_timestamp is None]

    def names(self, component: str) -> frozenset[str]:
        return frozenset(pod.metadata.name for pod in self.pods(component))

    def configuration_file(self) -> str:
        """Return the file that pods mount at /etc/lodge/lodge.yaml."""
        found = self.core.read_namespaced_config_map("lodge-config", self.namespace)
        return str(found.data["lodge.yaml"])

    def certificate(self) -> Mapping[str, str]:
        """Return the files of the certificate that the chart has created."""
        found = self.core.read_namespaced_secret("lodge-self-signed", self.namespace)
        return {key: base64.b64decode(value).decode() for key, value in found.data.items()}

    def configuration(self) -> Mapping[str, Any]:
        content: Mapping[str, Any] = yaml.safe_load(self.configuration_file())
        return content


def _volume(namespace: str) -> Sequence[Mapping[str, Any]]:
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": CLAIM},
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "storageClassName": "static",
            "volumeName": f"{CLAIM}-{namespace}",
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    return [persistent_volume(f"{CLAIM}-{namespace}", {"claimRef": {"name": CLAIM, "namespace": namespace}}), claim]


def persistent_volume(name: str, more: Mapping[str, Any]) -> Mapping[str, Any]:
    spec = {
        "accessModes": ["ReadWriteMany"],
        "capacity": {"storage": "100Gi"},
        "hostPath": {"path": "/nowhere"},
        "storageClassName": "static",
        **more,
    }
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec}
