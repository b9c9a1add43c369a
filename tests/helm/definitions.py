"""CustomResourceDefinitions of other projects whose objects the chart creates.

They come from the projects' Go modules, which Go verifies and stores in its cache.
"""

import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.cluster.cluster import Cluster
from tests.cluster.processes import wait_until
from tests.helm.schemas import has_schemas

_DOWNLOAD_SECONDS = 120
_SCHEMA_SECONDS = 60.0


class MissingDefinitionsError(Exception):
    """The definitions of a project cannot be read."""


@dataclass(frozen=True, slots=True)
class _Module:
    """The Go module of a project.

    Attributes:
        name: The module with its version.
        checksum: Go's checksum of its content.
        files: The files with definitions.
    """

    name: str
    checksum: str
    files: Sequence[str]


_MODULES = (
    _Module(
        "sigs.k8s.io/gateway-api@v1.6.3",
        "h1:lKpJa5bGlraC/QeACvCpsHLdmO6y0iKfzVl6gzaFEYc=",
        tuple(
            f"config/crd/standard/gateway.networking.k8s.io_{kind}.yaml"
            for kind in ("backendtlspolicies", "grpcroutes")
        ),
    ),
    _Module(
        "github.com/prometheus-operator/prometheus-operator@v0.85.0",
        "h1:M5xLCLEoaW2IJfnuCwFzzpL+jSVQu3KGT84Pye+fW8s=",
        tuple(
            f"example/prometheus-operator-crd/monitoring.coreos.com_{kind}.yaml"
            for kind in ("podmonitors", "prometheusrules")
        ),
    ),
)


def install_definitions(cluster: Cluster) -> None:
    """Install all definitions in a cluster.

    Raises:
        MissingDefinitionsError: Go is missing, or it cannot download a module.
    """
    definitions = list(_read_definitions())
    cluster.apply(definitions)
    wait_until(lambda: has_schemas(cluster.client, definitions), "the schemas are published", _SCHEMA_SECONDS)


def _read_definitions() -> Iterator[Mapping[str, Any]]:
    for module in _MODULES:
        directory = _download(module)
        for file in module.files:
            yield yaml.safe_load((directory / file).read_text())


def _download(module: _Module) -> Path:
    go = shutil.which("go")
    if go is None:
        raise MissingDefinitionsError(f"Go is missing, which downloads [{module.name}]. Install Go 1.26 or later.")
    with tempfile.TemporaryDirectory() as outside_of_modules:
        result = subprocess.run(
            [go, "mod", "download", "-json", module.name],
            cwd=outside_of_modules,
            capture_output=True,
            text=True,
            timeout=_DOWNLOAD_SECONDS,
            check=False,
        )
    answer = json.loads(result.stdout or "{}")
    if result.returncode:
        raise MissingDefinitionsError(f"Go cannot download [{module.name}]: {answer.get('Error') or result.stderr}")
    assert answer["Sum"] == module.checksum
    return Path(answer["Dir"])
