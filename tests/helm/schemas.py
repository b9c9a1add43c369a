"""JSON schemas of Kubernetes' kinds for kubeconform, from an API server.

kubeconform would download schemas. The API server's own schemas are the valid ones.
"""

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from kubernetes.client import ApiClient

from tests.cluster.builds import program

_FILE = "{{.ResourceKind}}{{.KindSuffix}}.json"
"""The file name that kubeconform expects: kind, first word of the group, and version, in lower case."""

_SECONDS = 60


def write_schemas(client: ApiClient, directory: Path) -> None:
    """Write one schema for each kind of the server. Unknown fields are errors."""
    for document in _documents(client):
        schemas = document["components"]["schemas"]
        for schema in schemas.values():
            _forbid_others(schema)
        for name, schema in schemas.items():
            for kind in schema.get("x-kubernetes-group-version-kind", ()):
                group = kind["group"].partition(".")[0]
                file = "-".join(part for part in (kind["kind"], group, kind["version"]) if part).lower()
                content = {"$ref": f"#/components/schemas/{name}", "components": {"schemas": schemas}}
                (directory / f"{file}.json").write_text(json.dumps(content))


def has_schemas(client: ApiClient, definitions: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether the server publishes the schemas of CustomResourceDefinitions. It does so with a delay."""
    wanted = {
        (spec["group"], version["name"], spec["names"]["kind"])
        for spec in (definition["spec"] for definition in definitions)
        for version in spec["versions"]
        if version["served"]
    }
    found = {
        (kind["group"], kind["version"], kind["kind"])
        for document in _documents(client)
        for schema in document["components"]["schemas"].values()
        for kind in schema.get("x-kubernetes-group-version-kind", ())
    }
    return wanted <= found


def conform(manifests: Sequence[Mapping[str, Any]], schemas: Path) -> str:
    """Check manifests with kubeconform, and return the errors; empty without errors."""
    result = subprocess.run(
        [program("kubeconform"), "-strict", "-output", "text", "-schema-location", f"{schemas}/{_FILE}"],
        input=yaml.safe_dump_all(manifests),
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )
    return result.stdout + result.stderr if result.returncode else ""


def _documents(client: ApiClient) -> Sequence[dict[str, Any]]:
    index = _read(client, "/openapi/v3")["paths"]
    groups = [path for path in index if path == "api/v1" or (path.startswith("apis/") and path.count("/") == 2)]
    return [_read(client, f"/openapi/v3/{path}") for path in groups]


def _read(client: ApiClient, path: str) -> dict[str, Any]:
    request = client.param_serialize("GET", path, auth_settings=["BearerToken"])
    response = client.call_api(*request)
    content: dict[str, Any] = json.loads(response.read())
    return content


def _forbid_others(schema: dict[str, Any]) -> None:
    """Forbid unknown fields, as kubeconform's strict schemas do."""
    if "properties" in schema:
        schema.setdefault("additionalProperties", False)
        for part in schema["properties"].values():
            _forbid_others(part)
    if isinstance(schema.get("items"), dict):
        _forbid_others(schema["items"])
