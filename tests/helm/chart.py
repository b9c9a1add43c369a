"""The chart and the real helm command."""

import json
import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.cluster.builds import program

CHART = Path(__file__).parents[2] / "helm" / "lodge"
BACKEND = "sc://spark-connect.spark.svc:15002"
SECONDS = 120

Values = Mapping[str, Any]
Manifest = Mapping[str, Any]

MINIMAL: Values = {"backend": {"addresses": [BACKEND]}, "volume": {"existingClaim": "files"}}
"""The smallest set of values that the chart accepts with a volume and an existing Spark Connect server."""

CERTIFIED: Values = {**MINIMAL, "tls": {"secretName": "certificate"}}
"""`MINIMAL` with an existing certificate. Helm needs most of its processor time to create one."""

BUNDLED: Values = {"volume": {"existingClaim": "files"}}
"""The smallest set of values that the chart accepts with a volume. The chart then runs Spark."""


class HelmError(Exception):
    """Helm refused a command. The message is its output."""


class Helm:
    """The helm command, without the configuration of its user.

    Args:
        home: A directory for its files.
        kubeconfig: The cluster; None for commands that need none.
    """

    def __init__(self, home: Path, kubeconfig: Path | None = None) -> None:
        self._home = home
        kept = {name: value for name, value in os.environ.items() if not name.startswith("HELM_")}
        places = {f"HELM_{kind}_HOME": str(home / kind.lower()) for kind in ("CACHE", "CONFIG", "DATA")}
        self._environment = kept | places | {"KUBECONFIG": str(kubeconfig or home / "none")}
        self._rendered: dict[str, str] = {}

    def run(self, *arguments: str | Path, values: Values | None = None, seconds: float = SECONDS) -> str:
        """Run a helm command, and return its output.

        Raises:
            HelmError: The command failed.
        """
        more: Sequence[str | Path] = ()
        with tempfile.NamedTemporaryFile("w", suffix=".yaml", dir=self._home) as file:
            if values is not None:
                yaml.safe_dump(dict(values), file)
                file.flush()
                more = ("--values", file.name)
            result = subprocess.run(
                [program("helm"), *arguments, *more],
                env=self._environment,
                capture_output=True,
                text=True,
                timeout=seconds,
                check=False,
            )
        if result.returncode:
            raise HelmError(f"helm {' '.join(map(str, arguments))}: {result.stderr}{result.stdout}")
        return result.stdout

    def template(
        self, values: Values, *options: str, release: str = "lodge", namespace: str = "default"
    ) -> Sequence[Manifest]:
        """Return the objects that the chart renders. It renders equal values only once."""
        arguments = ("template", release, CHART, "--namespace", namespace, *options)
        key = json.dumps([*map(str, arguments), values])
        if key not in self._rendered:
            self._rendered[key] = self.run(*arguments, values=values)
        return [manifest for manifest in yaml.load_all(self._rendered[key], yaml.CSafeLoader) if manifest]

    def template_all(self, values: Values) -> Sequence[Manifest]:
        """Return what the chart renders in the namespace ``here``, and the definitions of the chart."""
        return self.template(values, "--include-crds", namespace="here")


def with_values(*all_values: Values) -> dict[str, Any]:
    """Merge values as helm does: maps are merged, and other values are replaced."""
    joined: dict[str, Any] = {}
    for values in all_values:
        for key, value in values.items():
            known = joined.get(key)
            both_maps = isinstance(known, Mapping) and isinstance(value, Mapping)
            joined[key] = with_values(known, value) if both_maps else value
    return joined


def of_kind(manifests: Sequence[Manifest], kind: str) -> Sequence[Manifest]:
    return [manifest for manifest in manifests if manifest["kind"] == kind]


def find_object(manifests: Sequence[Manifest], kind: str, name: str) -> Manifest:
    (found,) = (manifest for manifest in of_kind(manifests, kind) if manifest["metadata"]["name"] == name)
    return found


def configuration(manifests: Sequence[Manifest]) -> str:
    """Return the configuration file of gateway and reaper."""
    (found,) = (manifest for manifest in of_kind(manifests, "ConfigMap") if "lodge.yaml" in manifest["data"])
    text: str = found["data"]["lodge.yaml"]
    return text
