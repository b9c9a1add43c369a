"""The command ``lodge definition``, which brings the definition of ConnectSession in a cluster up to date.

Helm creates the definition when it installs the chart for the first time, and never changes it. The chart therefore
runs this command before each installation and upgrade.

A definition with a later revision stays as it is, because a later Lodge in the same cluster needs it.
"""

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from lodge.command_errors import DefinitionError

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

NAME = "connectsessions.sparklodge.io"
_REVISION = "sparklodge.io/revision"
_PATH = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{NAME}"
_MANAGER = "lodge"
_TIMEOUT_SECONDS = 30.0


def add_definition_command(definition: argparse.ArgumentParser) -> None:
    """Add the options of ``lodge definition`` to its parser."""
    definition.add_argument("file", metavar="FILE", type=Path, help="The definition, as YAML.")
    definition.add_argument(
        "--kubeconfig", metavar="FILE", type=Path, help="A kubeconfig. Default: the service account of the pod."
    )


def run_definition_command(arguments: argparse.Namespace) -> None:
    """Apply a definition, unless the cluster has a later one.

    Raises:
        DefinitionError: If the file is not the definition, or the API server refuses it.
    """
    from kubernetes.client import ApiException  # noqa: PLC0415 - slow to load
    from urllib3.exceptions import HTTPError  # noqa: PLC0415

    from workspace.kubernetes.connection import KubernetesConfigError, connect  # noqa: PLC0415

    definition = _read(arguments.file)
    try:
        client = connect(arguments.kubeconfig, "default", "lodge").api_client
        found = _revision(_find(client))
        if found > _revision(definition):
            print(f"The definition [{NAME}] has the later revision {found}, and stays as it is.")
            return
        _apply(client, definition)
    except (ApiException, HTTPError, KubernetesConfigError) as error:
        reason = f"{error.status} {error.reason}: {error.body}" if isinstance(error, ApiException) else str(error)
        raise DefinitionError(f"The definition [{NAME}] was not applied: {reason}") from error
    print(f"Applied revision {_revision(definition)} of the definition [{NAME}].")


def _read(file: Path) -> Mapping[str, Any]:
    try:
        definition = yaml.safe_load(file.read_text())
    except (OSError, yaml.YAMLError) as error:
        raise DefinitionError(f"The file [{file}] cannot be read: {error}") from error
    kind = definition.get("kind") if isinstance(definition, dict) else None
    if kind != "CustomResourceDefinition" or definition.get("metadata", {}).get("name") != NAME:
        raise DefinitionError(f"The file [{file}] is not the definition [{NAME}]. Use the file of the chart, in crds/.")
    found: Mapping[str, Any] = definition
    return found


def _find(client: "ApiClient") -> Mapping[str, Any]:
    from workspace.kubernetes.connection import send_json  # noqa: PLC0415

    found: Mapping[str, Any] = json.loads(send_json(client, "GET", _PATH, _request_timeout=_TIMEOUT_SECONDS).data)
    return found


def _apply(client: "ApiClient", definition: Mapping[str, Any]) -> None:
    from workspace.kubernetes.connection import send_json  # noqa: PLC0415

    path = f"{_PATH}?fieldManager={_MANAGER}&force=true"
    send_json(client, "PATCH", path, definition, "application/apply-patch+yaml", _request_timeout=_TIMEOUT_SECONDS)


def _revision(definition: Mapping[str, Any]) -> int:
    """Return the revision of a definition. Those before revision 1 have none."""
    return int((definition["metadata"].get("annotations") or {}).get(_REVISION, 0))
