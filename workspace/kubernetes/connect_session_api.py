"""The requests about the ConnectSession objects of one Lodge, each made in one place.

Which objects are this Lodge's is decided by fields that cannot change, never by labels, which anybody may edit.
"""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from kubernetes.client import CustomObjectsApi

from workspace.kubernetes.api_server import ApiServer, JsonObject, RetryPolicy
from workspace.kubernetes.connect_session_objects import API_VERSION, GROUP, PLURAL, object_name
from workspace.kubernetes.connection import Connection
from workspace.kubernetes.object_watch import ObjectsEvent, watch_objects
from workspace.kubernetes.patches import CONTENT_TYPE, Patch
from workspace.records import RecordName, RecordsUnavailableError

_WHAT = "session records"


class ConnectSessionApi:
    """Every method raises what :meth:`workspace.kubernetes.api_server.Server.ask` raises.

    Args:
        connection: To the API server.
        patience: How long a request may take.
    """

    def __init__(self, connection: Connection, patience: RetryPolicy | None) -> None:
        self._instance = connection.instance
        self._server = ApiServer(connection, _WHAT, PLURAL, patience)
        self._watch_server = ApiServer(connection, _WHAT, PLURAL, RetryPolicy(repeat_seconds=0.0))
        self._api = CustomObjectsApi(connection.api_client)
        self._place: Mapping[str, Any] = {
            "group": GROUP,
            "version": API_VERSION,
            "namespace": connection.namespace,
            "plural": PLURAL,
        }

    def create(self, body: JsonObject) -> JsonObject:
        return self._ask(self._api.create_namespaced_custom_object, body=body, field_validation="Strict")

    def read(self, name: RecordName) -> JsonObject:
        return self._ask(self._api.get_namespaced_custom_object, name=object_name(self._instance, name))

    def patch(self, name: RecordName, patch: Patch) -> JsonObject:
        return self._patch(self._api.patch_namespaced_custom_object, name, patch)

    def patch_status(self, name: RecordName, patch: Patch) -> JsonObject:
        """Changes the status and nothing else, whatever the patch says."""
        return self._patch(self._api.patch_namespaced_custom_object_status, name, patch)

    def delete(self, name: RecordName, found: JsonObject) -> JsonObject:
        """Returns: The object while it has finalizers."""
        state = {key: found["metadata"][key] for key in ("uid", "resourceVersion")}
        return self._ask(
            self._api.delete_namespaced_custom_object,
            name=object_name(self._instance, name),
            body={"preconditions": state, "propagationPolicy": "Background"},
        )

    def list(self, *fields: str) -> Sequence[JsonObject]:
        """The objects of which all these hold, such as ``spec.phase=Active``."""
        found, _ = self._server.list_all(self._listing(*fields))
        return found

    def watch(self, stop: threading.Event) -> Iterator[ObjectsEvent]:
        return watch_objects(self._watch_server, self._listing(), stop)

    def unavailable(self, reason: str, way_out: str) -> RecordsUnavailableError:
        return self._server.unavailable(reason, way_out)

    def _listing(self, *fields: str) -> Callable[..., Any]:
        selector = ",".join([f"spec.instance={self._instance}", *fields])

        def listing(**page: Any) -> Any:
            return self._api.list_namespaced_custom_object(**self._place, field_selector=selector, **page)

        return listing

    def _patch(self, request: Callable[..., Any], name: RecordName, patch: Patch) -> JsonObject:
        return self._ask(
            request,
            name=object_name(self._instance, name),
            body=patch,
            field_validation="Strict",
            _content_type=CONTENT_TYPE,
        )

    def _ask(self, request: Callable[..., Any], **arguments: Any) -> JsonObject:
        def asked(**patience: Any) -> Any:
            return request(**self._place, **arguments, **patience)

        return self._server.request(asked)
