"""The requests of a release's accounts, from the API server's audit log.

A missing permission makes a request fail. A permission that nothing needs is found only by counting requests.
"""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from unittest import mock

import yaml

from tests.cluster.builds import PROGRAMS_OF_A_CLUSTER, program
from tests.helm.chart import Manifest

_SERVER = "kube-apiserver"
_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata", "userGroups": ["system:serviceaccounts"]}, {"level": "None"}],
}


@dataclass(frozen=True, slots=True)
class Permission:
    """One verb on one kind of object.

    Attributes:
        verb: The verb, such as ``get``.
        group: The API group; empty for the core group.
        resource: The resource with its subresource, such as ``connectsessions/status``.
        name: The name of the only permitted object; None for all objects.
    """

    verb: str
    group: str
    resource: str
    name: str | None = None

    def covers(self, use: "Permission") -> bool:
        same = (self.verb, self.group, self.resource) == (use.verb, use.group, use.resource)
        return same and self.name in {None, use.name}

    def __str__(self) -> str:
        return f"{self.verb} {self.group or 'core'}/{self.resource}{f' [{self.name}]' if self.name else ''}"


@dataclass(frozen=True, slots=True)
class Request:
    """A request of an account, and the status of its response."""

    permission: Permission
    status: int

    @property
    def is_forbidden(self) -> bool:
        return self.status == HTTPStatus.FORBIDDEN

    def permissions(self) -> Iterator[Permission]:
        """Return the permissions that a request needs.

        A patch that creates an object also needs ``create``.
        """
        yield self.permission
        if self.permission.verb == "patch" and self.status == HTTPStatus.CREATED:
            yield Permission("create", self.permission.group, self.permission.resource, self.permission.name)


class AuditLog:
    """The audit log of one API server."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def requests(self, namespace: str, account: str) -> Sequence[Request]:
        """Return all requests of an account so far, including those still open."""
        user = f"system:serviceaccount:{namespace}:{account}"
        entries = (json.loads(line) for line in self._path.read_text().splitlines())
        return [_request(entry) for entry in entries if entry["user"]["username"] == user and "objectRef" in entry]


@contextmanager
def audited_programs(directory: Path) -> Iterator[AuditLog]:
    """Make clusters that start in this context write an audit log."""
    policy, log = directory / "policy.yaml", directory / "audit.log"
    policy.write_text(yaml.safe_dump(_POLICY))
    for name in PROGRAMS_OF_A_CLUSTER:
        (directory / name).symlink_to(program(name))
    server = directory / _SERVER
    server.unlink()
    server.write_text(
        f'#!/bin/sh\nexec "{program(_SERVER)}" --audit-policy-file="{policy}" --audit-log-path="{log}" "$@"\n'
    )
    server.chmod(0o755)
    with mock.patch.dict(os.environ, KUBEBUILDER_ASSETS=str(directory)):
        yield AuditLog(log)


def list_permissions(roles: Sequence[Manifest]) -> frozenset[Permission]:
    """Return every permission of the roles, one by one."""
    return frozenset(
        Permission(verb, group, resource, name)
        for role in roles
        for rule in role["rules"]
        for verb in rule["verbs"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for name in rule.get("resourceNames") or [None]
    )


def _request(entry: Mapping[str, Mapping[str, str]]) -> Request:
    reference = entry["objectRef"]
    resource = "/".join(part for part in (reference["resource"], reference.get("subresource")) if part)
    permission = Permission(str(entry["verb"]), reference.get("apiGroup", ""), resource, reference.get("name"))
    return Request(permission, int(entry.get("responseStatus", {}).get("code", 0)))
