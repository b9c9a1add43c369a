"""Requests for the ConnectSession objects of one Lodge installation.

Immutable fields determine which objects belong to the installation. Labels are not used for this, because any user
with write permission can edit them. A label only selects the objects that a gateway lists and watches.
"""

import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, TypeVar

from kubernetes.client import CustomObjectsApi

from workspace.identifiers import RecordName
from workspace.kubernetes.api_server import ApiServer, JsonObject, RetryPolicy
from workspace.kubernetes.connect_session_objects import API_VERSION, GROUP, PLURAL, object_name
from workspace.kubernetes.connection import Connection, send_json
from workspace.kubernetes.object_watch import ObjectsEvent, watch_objects
from workspace.kubernetes.patches import CONTENT_TYPE, Patch
from workspace.record_store import RecordsUnavailableError

_DESCRIPTION = "session records"
_STRICT = "?fieldValidation=Strict"
_SELECTOR_CHARACTERS = re.compile(r"[\\,=]")
_Converted = TypeVar("_Converted")


class ConnectSessionApi:
    """A client for the ConnectSession objects of one Lodge installation.

    All methods raise the exceptions of :meth:`workspace.kubernetes.api_server.ApiServer.request`.

    Args:
        connection: The connection to the API server.
        retry_policy: The time limits for requests.
    """

    def __init__(self, connection: Connection, retry_policy: RetryPolicy | None) -> None:
        self._instance = connection.instance
        self._server = ApiServer(connection, _DESCRIPTION, PLURAL, retry_policy)
        self._watch_server = ApiServer(connection, _DESCRIPTION, PLURAL, RetryPolicy(repeat_seconds=0.0))
        self._client = connection.api_client
        self._path = f"/apis/{GROUP}/{API_VERSION}/namespaces/{connection.namespace}/{PLURAL}"
        self._api = CustomObjectsApi(connection.api_client)
        self._resource: Mapping[str, Any] = {
            "group": GROUP,
            "version": API_VERSION,
            "namespace": connection.namespace,
            "plural": PLURAL,
        }

    def create(self, body: JsonObject) -> JsonObject:
        """Create a ConnectSession object."""
        return self._send("POST", _STRICT, body)

    def read(self, name: RecordName) -> JsonObject:
        """Return the ConnectSession object of a session record."""
        return self._send("GET", self._object(name))

    def patch(self, name: RecordName, patch: Patch) -> JsonObject:
        """Apply a patch to the ConnectSession object of a session record."""
        return self._send("PATCH", f"{self._object(name)}{_STRICT}", patch, CONTENT_TYPE)

    def patch_status(self, name: RecordName, patch: Patch) -> JsonObject:
        """Apply a patch to the status of the ConnectSession object of a session record.

        The API server ignores all other parts of the patch.
        """
        return self._send("PATCH", f"{self._object(name)}/status{_STRICT}", patch, CONTENT_TYPE)

    def delete(self, name: RecordName, found: JsonObject) -> JsonObject:
        """Delete a ConnectSession object if it has not changed since it was read.

        If finalizers delay the deletion, the result is the object. Otherwise, it is a status.
        """
        state = {key: found["metadata"][key] for key in ("uid", "resourceVersion")}
        body = {"preconditions": state, "propagationPolicy": "Background"}
        return self._send("DELETE", self._object(name), body)

    def list(self, convert: Callable[[JsonObject], _Converted], labels: str | None = None) -> Sequence[_Converted]:
        """Return the ConnectSession objects that match a label selector, each converted by a function."""
        found, _ = self._server.list_converted(self._listing(labels=labels), convert)
        return found

    def list_few(self, convert: Callable[[JsonObject], _Converted], field: str, value: str) -> Sequence[_Converted]:
        """Return the ConnectSession objects with a value in a selectable field, each converted by a function.

        An example of a field is ``spec.sessionUuid``.
        """
        found, _ = self._server.list_converted(self._listing({field: value}), convert, is_paged=False)
        return found

    def watch(
        self, stop: threading.Event, convert_listed: Callable[[JsonObject], Any], labels: str | None = None
    ) -> Iterator[ObjectsEvent]:
        """Yield an event for each change of a ConnectSession object that matches a label selector.

        An object that does not match any more is reported like a deleted object. See :func:`watch_objects`.
        """
        return watch_objects(self._watch_server, self._listing(labels=labels), stop, convert_listed)

    def unavailable(self, reason: str, remedy: str) -> RecordsUnavailableError:
        """Return the error for session records that cannot be used.

        The message contains the reason and an instruction for the operator.
        """
        return self._server.unavailable(reason, remedy)

    def _listing(
        self, fields: Mapping[str, str] = MappingProxyType({}), labels: str | None = None
    ) -> Callable[..., Any]:
        values = {"spec.instance": self._instance, **fields}
        return partial(
            self._api.list_namespaced_custom_object,
            **self._resource,
            field_selector=",".join(f"{field}={_escape(value)}" for field, value in values.items()),
            label_selector=labels,
        )

    def _object(self, name: RecordName) -> str:
        """Return the path of the ConnectSession object of a session record."""
        return f"/{object_name(self._instance, name)}"

    def _send(self, method: str, path: str, body: Any = None, content_type: str = "application/json") -> JsonObject:
        request = partial(send_json, self._client, method, f"{self._path}{path}", body, content_type)
        return self._server.request(request)


def _escape(value: str) -> str:
    """Return a value with the escapes of a field selector, as ``fields.EscapeValue`` of Kubernetes does."""
    return _SELECTOR_CHARACTERS.sub(r"\\\g<0>", value)
