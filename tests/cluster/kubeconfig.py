"""Kubeconfig files for the clients of the test cluster."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml


@dataclass(frozen=True, slots=True)
class Server:
    """The address of an API server.

    Attributes:
        url: The URL on loopback. It stays the same over restarts.
        ca_file: The certificate authority that signed its certificate.
    """

    url: str
    ca_file: Path

    def write_kubeconfig(self, path: Path, user: Mapping[str, str], namespace: str = "default") -> Path:
        """Write a file for one user, given as in a kubeconfig: ``token`` or ``tokenFile``."""
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": {"server": self.url, "certificate-authority": str(self.ca_file)}}],
            "users": [{"name": "user", "user": dict(user)}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "user", "namespace": namespace}}],
            "current-context": "test",
        }
        path.touch(mode=0o600)
        path.write_text(yaml.safe_dump(content, sort_keys=False))
        return path
