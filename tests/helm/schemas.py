"""JSON schemas of Kubernetes' kinds for kubeconform, from an API server.

kubeconform would download schemas. The API server's own schemas are the valid ones.
"""

import json
import re
import subprocess
from collections.abc import Mapping, Sequence, Set
from pathlib import Path
from typing import Any

import yaml
from kubernetes.client import ApiClient

from tests.cluster.builds import program

_FILE = "{{.ResourceKind}}{{.KindSuffix}}.json"
"""The file name that kubeconform expects: kind, first word of the group, and version, in lower case."""

_REFERENCE = re.compile(r'"#/components/schemas/([^"]+)"')

_SECONDS = 60


def write_schemas(client: ApiClient, directory: Path) -> None:
    """Write one schema for each kind of the server. Unknown fields are errors."""
    for document in _documents(client):
        schemas = document["components"]["schemas"]
        for schema in schemas.values():
            _forbid_others(schema)
        references = {name: _REFERENCE.findall(json.dumps(schema)) for name, schema in schemas.items()}
        for name, schema in schemas.items():
            for kind in schema.get("x-kubernetes-group-version-kind", ()):
                group = kind["group"].partition(".")[0]
                file = "-".join(part for part in (kind["kind"], group, kind["version"]) if part).lower()
                needed = {each: schemas[each] for each in _reachable(name, references)}
                content = {"$ref": f"#/components/schemas/{name}", "components": {"schemas": needed}}
                (directory / f"{file}.json").write_text(json.dumps(content))


def has_schemas(client: ApiClient, definitions: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether the server publishes the schemas of CustomResourceDefinitions. It does so with a delay."""
    wanted = {
        (spec["group"], version["name"], spec["names"]["kind"])
        for spec in (definition["spec"] for definition in definitions)
        for version in spec["versions"]
        if version["served"]
    }
    groups = {(group, version) for group, version, _ in wanted}
    found = {
        (kind["group"], kind["version"], kind["kind"])
        for document in _documents(client, {f"apis/{group}/{version}" for group, version in groups})
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


def _documents(client: ApiClient, paths: Set[str] | None = None) -> Sequence[dict[str, Any]]:
    """Read the documents of all groups, or those at some paths that exist."""
    index = _read(client, "/openapi/v3")["paths"]
    groups = {path for path in index if path == "api/v1" or (path.startswith("apis/") and path.count("/") == 2)}
    return [_read(client, f"/openapi/v3/{path}") for path in sorted(groups if paths is None else groups & paths)]


def _reachable(name: str, references: Mapping[str, Sequence[str]]) -> Set[str]:
    """Return the name of a schema, and the names of all schemas that it needs."""
    found, rest = {name}, [name]
    while rest:
        more = set(references[rest.pop()]) - found
        found |= more
        rest += more
    return found


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
