"""The chart's permissions, accounts and configuration, for use without pods.

Gateways and reapers must work with exactly the permissions and settings that an operator gets. Clients therefore
connect with TLS. They present tokens of an identity provider, because these are valid while the API server is absent.
"""

import base64
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.cluster.accounts import ServiceAccount
from tests.cluster.cluster import Cluster
from tests.helm.chart import Helm, Manifest, configuration, find_object
from tests.identity.provider import HOUR_SECONDS, IdentityProvider

INSTANCE = "lodge"
"""The name of each Lodge of these tests."""

_WITHOUT_PODS = frozenset({"Deployment", "PodDisruptionBudget"})
_SECRETS_PATH = "/etc/lodge-secrets"


@dataclass(frozen=True, slots=True)
class InstalledChart:
    """The parts of an installed chart that processes need.

    Attributes:
        instance: The name of this Lodge.
        config_file: The file for ``--config``, as pods would mount it.
        accounts: The service accounts of ``gateway`` and ``reaper``.
        labels: The labels of their pods.
        authority: The certificate authority of the gateways, as PEM.
        provider: The identity provider of the clients.
    """

    instance: str
    config_file: Path
    accounts: Mapping[str, ServiceAccount]
    labels: Mapping[str, Mapping[str, str]]
    authority: bytes
    provider: IdentityProvider

    def token(self, user: str) -> str:
        """Return a token of a user that is also valid for gateways with a shifted clock."""
        now = int(time.time())
        return self.provider.token(user, iat=now - HOUR_SECONDS, exp=now + 24 * HOUR_SECONDS)


def install(
    cluster: Cluster,
    namespace: str,
    directory: Path,
    *,
    backend: str,
    workspace: Path,
    config: Mapping[str, Any],
    settings: Mapping[str, Any],
) -> InstalledChart:
    """Apply all objects of the chart except those that start pods.

    Args:
        directory: The directory of the configuration file.
        backend: The address of Spark.
        workspace: The directory of the temporary workspace.
        config: The chart's value ``config``.
        settings: Settings of gateways and reapers that differ from those of the chart.
    """
    provider = IdentityProvider(directory, algorithms=("ES256",))
    values = {
        "authentication": {"jwt": [_method(provider)]},
        "backend": {"addresses": [backend]},
        "config": dict(config),
        "volume": {"existingClaim": "storage", "mountPath": str(workspace)},
        "workspaces": {"dfs.tmp": workspace.as_uri()},
    }
    manifests = Helm(directory).template(values, "--include-crds", namespace=namespace)
    cluster.apply((each for each in manifests if each["kind"] not in _WITHOUT_PODS), namespace)
    secrets = directory / "secrets"
    _write_certificate(manifests, secrets)
    config_file = directory / "lodge.yaml"
    configured = yaml.safe_load(configuration(manifests).replace(_SECRETS_PATH, str(secrets)))
    config_file.write_text(yaml.safe_dump({**configured, **settings}))
    accounts, labels = {}, {}
    for component in ("gateway", "reaper"):
        template = find_object(manifests, "Deployment", f"lodge-{component}")["spec"]["template"]
        accounts[component] = cluster.service_account(namespace, template["spec"]["serviceAccountName"])
        labels[component] = template["metadata"]["labels"]
    return InstalledChart(INSTANCE, config_file, accounts, labels, (secrets / "ca.crt").read_bytes(), provider)


def _method(provider: IdentityProvider) -> Mapping[str, str]:
    """Return the entry of the provider in the chart's value ``authentication.jwt``."""
    return {
        "jwks": provider.jwks_file.as_uri(),
        "issuer": provider.issuer,
        "audience": provider.audience,
        "principal_claim": "sub",
    }


def _write_certificate(manifests: Sequence[Manifest], directory: Path) -> None:
    """Write the certificate that the chart creates, as a kubelet does."""
    directory.mkdir(mode=0o700)
    for name, content in find_object(manifests, "Secret", "lodge-self-signed")["data"].items():
        (directory / name).write_bytes(base64.b64decode(content))
