"""Service accounts of the test cluster, with tokens and permissions of their own."""

import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kubernetes.client import ApiClient, AuthorizationV1Api, CoreV1Api, RbacAuthorizationV1Api

from tests.cluster.kubeconfig import Server
from tests.cluster.processes import wait_until

TOKEN_SECONDS = 3600
REVOKED_SECONDS = 10
"""How long the API server may still accept a revoked token from its cache."""

_GRANT_SECONDS = 30

Rule = Mapping[str, Sequence[str]]
"""A rule as in a Role: ``{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}``."""


class ServiceAccount:
    """A service account with a kubeconfig file and a separate token file, like a pod.

    Attributes:
        kubeconfig: The kubeconfig file. It names the token file, so clients notice a rotation.
        token_file: The file with the current token.
    """

    def __init__(self, namespace: str, name: str, client: ApiClient, server: Server, directory: Path) -> None:
        self.namespace = namespace
        self.name = name
        self._core = CoreV1Api(client)
        self._rbac = RbacAuthorizationV1Api(client)
        self._authorization = AuthorizationV1Api(client)
        path = directory / f"{namespace}-{name}-{secrets.token_hex(4)}"
        self.token_file = path.with_suffix(".token")
        self._token_secret = self._write_token()
        self.kubeconfig = server.write_kubeconfig(
            path.with_suffix(".kubeconfig"), {"tokenFile": str(self.token_file)}, namespace
        )

    @property
    def token(self) -> str:
        return self.token_file.read_text()

    def allow(self, *rules: Rule) -> None:
        """Grant permissions in the account's namespace, in addition to existing ones, and wait until they apply."""
        role = self._rbac.create_namespaced_role(self.namespace, self._role(rules))
        self._rbac.create_namespaced_role_binding(self.namespace, self._binding("Role", role.metadata.name))
        self._wait_for(rules, {"namespace": self.namespace})

    def allow_everywhere(self, *rules: Rule) -> None:
        """Grant permissions in all namespaces and for objects without namespace, and wait until they apply."""
        role = self._rbac.create_cluster_role(self._role(rules))
        self._rbac.create_cluster_role_binding(self._binding("ClusterRole", role.metadata.name))
        self._wait_for(rules, {})

    def rotate(self) -> None:
        """Replace the token in the file atomically, and revoke the old one.

        The API server may accept the old one for `REVOKED_SECONDS`.
        """
        old, self._token_secret = self._token_secret, self._write_token()
        self._core.delete_namespaced_secret(old, self.namespace)

    def revoke(self) -> None:
        """Revoke the token without a replacement.

        The API server may accept it for `REVOKED_SECONDS`.
        """
        self._core.delete_namespaced_secret(self._token_secret, self.namespace)

    def _wait_for(self, rules: Sequence[Rule], scope: Mapping[str, str]) -> None:
        """Wait until the API server, which caches roles, grants all rules."""
        for rule in rules:
            attributes = {"group": rule["apiGroups"][0], "resource": rule["resources"][0], "verb": rule["verbs"][0]}
            if rule.get("resourceNames"):
                attributes["name"] = rule["resourceNames"][0]
            user = f"system:serviceaccount:{self.namespace}:{self.name}"
            review = {"spec": {"user": user, "resourceAttributes": {**attributes, **scope}}}
            wait_until(
                lambda review=review: self._authorization.create_subject_access_review(review).status.allowed,
                f"{user} may {attributes['verb']} {attributes['resource']}",
                _GRANT_SECONDS,
            )

    def _role(self, rules: Sequence[Rule]) -> Mapping[str, Any]:
        return {"metadata": {"generateName": f"{self.name}-"}, "rules": [dict(rule) for rule in rules]}

    def _binding(self, kind: str, role: str) -> Mapping[str, Any]:
        return {
            "metadata": {"name": role},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role},
            "subjects": [{"kind": "ServiceAccount", "namespace": self.namespace, "name": self.name}],
        }

    def _write_token(self) -> str:
        """Create a secret and write a token that is valid while the secret exists.

        Returns:
            The name of the secret.
        """
        secret = self._core.create_namespaced_secret(self.namespace, {"metadata": {"generateName": f"{self.name}-"}})
        bound_to = {"apiVersion": "v1", "kind": "Secret", "name": secret.metadata.name, "uid": secret.metadata.uid}
        request = {"spec": {"audiences": [], "expirationSeconds": TOKEN_SECONDS, "boundObjectRef": bound_to}}
        answer = self._core.create_namespaced_service_account_token(self.name, self.namespace, request)
        new = self.token_file.with_suffix(".new")
        new.touch(mode=0o600)
        new.write_text(answer.status.token)
        new.replace(self.token_file)
        return secret.metadata.name
