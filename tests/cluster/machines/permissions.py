"""Permissions of the programs that belong to the cluster itself."""

from collections.abc import Mapping, Sequence
from typing import Any

from tests.cluster.accounts import Rule

_GROUP = "rbac.authorization.k8s.io"


def grant(user: str, rules: Sequence[Rule]) -> Sequence[Mapping[str, Any]]:
    """Return a role and its binding, which give a user permissions in the whole cluster."""
    api = {"apiVersion": f"{_GROUP}/v1", "metadata": {"name": user}}
    role = {**api, "kind": "ClusterRole", "rules": [dict(rule) for rule in rules]}
    binding = {
        **api,
        "kind": "ClusterRoleBinding",
        "roleRef": {"apiGroup": _GROUP, "kind": "ClusterRole", "name": user},
        "subjects": [{"apiGroup": _GROUP, "kind": "User", "name": user}],
    }
    return [role, binding]
