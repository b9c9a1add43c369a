"""Applies manifests as ``kubectl apply`` does."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from kubernetes.client import ApiClient, ApiextensionsV1Api
from kubernetes.dynamic import DynamicClient

from tests.cluster.processes import wait_until

ESTABLISHED_SECONDS = 30.0
_OWNER = "lodge-tests"


def apply(
    client: ApiClient,
    objects: Iterable[Mapping[str, Any]],
    namespace: str | None,
    discovery: Path,
    *,
    dry_run: str | None = None,
) -> None:
    """Apply manifests in order, by server-side apply.

    Args:
        client: The API client.
        objects: The manifests.
        namespace: The namespace of manifests that name none.
        discovery: A cache file for the kinds that the server knows.
        dry_run: ``All`` if the server checks the objects, but stores none.
    """
    dynamic = DynamicClient(client, cache_file=str(discovery))
    for manifest in objects:
        kind = dynamic.resources.get(api_version=manifest["apiVersion"], kind=manifest["kind"])
        where = manifest["metadata"].get("namespace", namespace) if kind.namespaced else None
        dynamic.server_side_apply(
            kind, body=dict(manifest), namespace=where, field_manager=_OWNER, force_conflicts=True, dry_run=dry_run
        )
        if manifest["kind"] == "CustomResourceDefinition":
            _wait_until_established(client, manifest["metadata"]["name"])


def _wait_until_established(client: ApiClient, name: str) -> None:
    definitions = ApiextensionsV1Api(client)

    def is_established() -> bool:
        conditions = definitions.read_custom_resource_definition(name).status.conditions or ()
        return any(condition.type == "Established" and condition.status == "True" for condition in conditions)

    wait_until(is_established, f"custom resource {name} is established", ESTABLISHED_SECONDS)
