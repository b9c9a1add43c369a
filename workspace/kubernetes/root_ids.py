"""The ids of roots and of the session records, stored in a ConfigMap.

If session records are stored on Kubernetes and an empty directory is mounted in place of the storage, it looks as if
all session locations had been deleted. To detect this, the id of each root is stored together with the records. The id
of the session records is stored there, too. If two Lodge installations used the same root, each would treat the
session locations of the other as orphans.

Guarantees:

1. If several processes record an id for the same root, or for the session records, one of the ids is stored, and all
   processes get this id.
2. A recorded id is kept until a person removes it from the ConfigMap ``<instance>-roots``.
"""

import hashlib
import json
import secrets
from functools import partial
from http import HTTPStatus
from typing import Any

from kubernetes.client import CoreV1Api

from workspace.kubernetes.api_server import CHECK_API_SERVER, ApiServer, ApiStatusError, JsonObject, RetryPolicy
from workspace.kubernetes.connection import Connection
from workspace.kubernetes.labels import labels_of
from workspace.record_store import RecordsUnavailableError
from workspace.retries import retry_on

_RECORDS = "records"


class _ContendedError(RecordsUnavailableError):
    """Raised if others changed the ConfigMap at the same time; a transient error."""


class KubernetesRootIds:
    """An implementation of ``RootIds`` on Kubernetes.

    It is safe for use by several threads.

    Args:
        connection: The connection to the API server.
        retry_policy: The time limits for requests.
    """

    def __init__(self, connection: Connection, retry_policy: RetryPolicy | None = None) -> None:
        self._namespace = connection.namespace
        self._instance = connection.instance
        self._name = f"{connection.instance}-roots"
        self._labels = labels_of(connection.instance)
        self._server = ApiServer(connection, "ids of roots", "configmaps", retry_policy)
        self._api = CoreV1Api(connection.api_client)

    def records_id(self) -> str:
        """Return the id of the session records. The first call generates the id."""
        return self._add(_RECORDS, f"kubernetes/{self._namespace}/{self._instance}/{secrets.token_hex(16)}")

    def expected(self, root: str) -> str | None:
        """Return the recorded id of a root, or None if no id was recorded."""
        entry = _entry(self._read(), _key(root))
        return None if entry is None else self._id_in(entry, root)

    def record(self, root: str, root_id: str) -> str:
        """Record the id of a root if no id has been recorded, and return the recorded id."""
        return self._id_in(self._add(_key(root), json.dumps({"root": root, "id": root_id})), root)

    @retry_on(_ContendedError, attempts=20, first_pause_seconds=0.01, longest_pause_seconds=0.5)
    def _add(self, key: str, entry: str) -> str:
        """Add an entry if it does not exist, and return the current entry."""
        found = self._read()
        existing = _entry(found, key)
        if existing is not None:
            return existing
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
                raise self._server.unavailable(error.message, CHECK_API_SERVER) from error
            raise _ContendedError(
                None, f"Other processes keep changing the ConfigMap [{self._name}]. Try again."
            ) from error
        return entry

    def _read(self) -> JsonObject | None:
        try:
            return self._server.request(partial(self._api.read_namespaced_config_map, self._name, self._namespace))
        except ApiStatusError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise self._server.unavailable(error.message, CHECK_API_SERVER) from error
            return None

    def _id_in(self, entry: str, root: str) -> str:
        try:
            return str(json.loads(entry)["id"])
        except (ValueError, TypeError, KeyError) as error:
            raise self._server.unavailable(
                f"the entry {_key(root)} of the ConfigMap {self._name} is damaged",
                f"If [{root}] is the original storage, remove the entry. Otherwise, restore the entry.",
            ) from error


def _entry(found: JsonObject | None, key: str) -> str | None:
    entry = None if found is None else (found.get("data") or {}).get(key)
    return None if entry is None else str(entry)


def _key(root: str) -> str:
    return hashlib.sha256(root.encode("utf-8", "surrogatepass")).hexdigest()[:40]
