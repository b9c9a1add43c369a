"""The ids of roots in a ConfigMap, so that a file system that was mounted in a root's place is found out.

Why it exists: with session records on Kubernetes, an empty directory where the storage should be looks like a workspace
in which every session location is gone. What a root's id must be is therefore kept where the records are.

Guarantees:

1. Of several who record an id for one root at the same time, one wins, and all are told its id.
2. An id that was recorded stays, until somebody takes it out of the ConfigMap ``<instance>-roots`` by hand.
"""

import hashlib
import json
from functools import partial
from http import HTTPStatus
from typing import Any

import tenacity
from kubernetes.client import CoreV1Api

from workspace.kubernetes.connection import Connection
from workspace.kubernetes.labels import labels_of
from workspace.kubernetes.server import JsonObject, Patience, RefusalError, Server
from workspace.records import RecordsUnavailableError

_ATTEMPTS = 20


class KubernetesRootIds:
    """Implements :class:`workspace.roots.RootIds`; safe to share between threads.

    Args:
        connection: Where the ConfigMap is, or will be.
        patience: How long a request may take.
    """

    def __init__(self, connection: Connection, patience: Patience | None = None) -> None:
        self._namespace = connection.namespace
        self._name = f"{connection.instance}-roots"
        self._labels = labels_of(connection.instance)
        self._server = Server(connection, "ids of roots", "configmaps", patience)
        self._api = CoreV1Api(connection.api_client)

    def expected(self, root: str) -> str | None:
        found = self._read()
        return None if found is None else self._id_in(found, root)

    def record(self, root: str, root_id: str) -> str:
        retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(_ContendedError),
            wait=tenacity.wait_random_exponential(multiplier=0.01, max=0.5),
            stop=tenacity.stop_after_attempt(_ATTEMPTS),
            reraise=True,
        )
        return retrying(self._record, root, root_id)

    def _record(self, root: str, root_id: str) -> str:
        found = self._read()
        recorded = None if found is None else self._id_in(found, root)
        if recorded is not None:
            return recorded
        entry = {_key(root): json.dumps({"root": root, "id": root_id})}
        try:
            if found is None:
                self._server.ask(partial(self._api.create_namespaced_config_map, self._namespace, self._new(entry)))
            else:
                body: Any = dict(found) | {"data": dict(found.get("data") or {}) | entry}
                self._server.ask(partial(self._api.replace_namespaced_config_map, self._name, self._namespace, body))
        except RefusalError as error:
            if error.status not in {HTTPStatus.CONFLICT, HTTPStatus.NOT_FOUND}:
                raise self._server.unavailable(error.message, "Look after the API server.") from error
            raise _ContendedError(None, f"Others write to the ConfigMap {self._name} all the time.") from error
        return root_id

    def _read(self) -> JsonObject | None:
        try:
            return self._server.ask(partial(self._api.read_namespaced_config_map, self._name, self._namespace))
        except RefusalError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise self._server.unavailable(error.message, "Look after the API server.") from error
            return None

    def _new(self, entries: dict[str, str]) -> Any:
        return {"metadata": {"name": self._name, "labels": self._labels}, "data": entries}

    def _id_in(self, found: JsonObject, root: str) -> str | None:
        entry = (found.get("data") or {}).get(_key(root))
        if entry is None:
            return None
        try:
            return str(json.loads(entry)["id"])
        except (ValueError, TypeError, KeyError) as error:
            raise self._server.unavailable(
                f"the entry {_key(root)} of the ConfigMap {self._name} is damaged",
                f"Restore it, or take it out if [{root}] is the true storage.",
            ) from error


class _ContendedError(RecordsUnavailableError):
    pass


def _key(root: str) -> str:
    return hashlib.sha256(root.encode("utf-8", "surrogatepass")).hexdigest()[:40]
