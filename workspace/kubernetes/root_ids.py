"""The ids of roots and records in a ConfigMap, so that another file system in a root's place is found out.

Why it exists: with session records on Kubernetes, an empty directory where the storage should be looks like a workspace
in which every session location is gone. What a root's id must be is therefore kept where the records are. So is the id
by which roots name these records: of two Lodges with one root, each would take the other's locations for orphans.

Guarantees:

1. Of several who record an id for one root, or for the records, at the same time, one wins, and all are told its id.
2. An id that was recorded stays, until somebody takes it out of the ConfigMap ``<instance>-roots`` by hand.
"""

import hashlib
import json
import secrets
from functools import partial
from http import HTTPStatus
from typing import Any

import tenacity
from kubernetes.client import CoreV1Api

from workspace.kubernetes.api_server import ApiServer, ApiStatusError, JsonObject, RetryPolicy
from workspace.kubernetes.connection import Connection
from workspace.kubernetes.labels import labels_of
from workspace.records import RecordsUnavailableError

_ATTEMPTS = 20
_RECORDS = "records"


class KubernetesRootIds:
    """Implements :class:`workspace.root_identities.RootIds`; safe to share between threads.

    Args:
        connection: Where the ConfigMap is, or will be.
        patience: How long a request may take.
    """

    def __init__(self, connection: Connection, patience: RetryPolicy | None = None) -> None:
        self._namespace = connection.namespace
        self._instance = connection.instance
        self._name = f"{connection.instance}-roots"
        self._labels = labels_of(connection.instance)
        self._server = ApiServer(connection, "ids of roots", "configmaps", patience)
        self._api = CoreV1Api(connection.api_client)

    def records_id(self) -> str:
        return self._kept(_RECORDS, f"kubernetes/{self._namespace}/{self._instance}/{secrets.token_hex(16)}")

    def expected(self, root: str) -> str | None:
        entry = _entry(self._read(), _key(root))
        return None if entry is None else self._id_in(entry, root)

    def record(self, root: str, root_id: str) -> str:
        return self._id_in(self._kept(_key(root), json.dumps({"root": root, "id": root_id})), root)

    def _kept(self, key: str, entry: str) -> str:
        """Keeps an entry, unless there is one. Returns: The one that is kept now."""
        retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(_ContendedError),
            wait=tenacity.wait_random_exponential(multiplier=0.01, max=0.5),
            stop=tenacity.stop_after_attempt(_ATTEMPTS),
            reraise=True,
        )
        return retrying(self._keep, key, entry)

    def _keep(self, key: str, entry: str) -> str:
        found = self._read()
        kept = _entry(found, key)
        if kept is not None:
            return kept
        try:
            if found is None:
                body: Any = {"metadata": {"name": self._name, "labels": self._labels}, "data": {key: entry}}
                self._server.request(partial(self._api.create_namespaced_config_map, self._namespace, body))
            else:
                body = dict(found) | {"data": dict(found.get("data") or {}) | {key: entry}}
                self._server.request(
                    partial(self._api.replace_namespaced_config_map, self._name, self._namespace, body)
                )
        except ApiStatusError as error:
            if error.status not in {HTTPStatus.CONFLICT, HTTPStatus.NOT_FOUND}:
                raise self._server.unavailable(error.message, "Look after the API server.") from error
            raise _ContendedError(None, f"Others write to the ConfigMap {self._name} all the time.") from error
        return entry

    def _read(self) -> JsonObject | None:
        try:
            return self._server.request(partial(self._api.read_namespaced_config_map, self._name, self._namespace))
        except ApiStatusError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise self._server.unavailable(error.message, "Look after the API server.") from error
            return None

    def _id_in(self, entry: str, root: str) -> str:
        try:
            return str(json.loads(entry)["id"])
        except (ValueError, TypeError, KeyError) as error:
            raise self._server.unavailable(
                f"the entry {_key(root)} of the ConfigMap {self._name} is damaged",
                f"Restore it, or take it out if [{root}] is the true storage.",
            ) from error


class _ContendedError(RecordsUnavailableError):
    pass


def _entry(found: JsonObject | None, key: str) -> str | None:
    entry = None if found is None else (found.get("data") or {}).get(key)
    return None if entry is None else str(entry)


def _key(root: str) -> str:
    return hashlib.sha256(root.encode("utf-8", "surrogatepass")).hexdigest()[:40]
