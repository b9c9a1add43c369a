"""JSON patches of ConnectSession objects that check the expected state.

A patch that includes the expected state of an object performs a compare-and-swap in a single request. The API server
applies the complete patch, or nothing if a test in the patch fails.

Source: RFC 6902.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from workspace.kubernetes.api_server import JsonObject
from workspace.kubernetes.connect_session_objects import FINALIZER
from workspace.record_store import Version

CONTENT_TYPE = "application/json-patch+json"

Patch = Sequence[Mapping[str, Any]]


def replace_at_version(version: Version, path: str, value: Any) -> Patch | None:
    """Return a patch that replaces a part of an object with the given version.

    Returns None if the version is not valid for any object.
    """
    uid, _, generation = version.rpartition(".")
    if not uid or not (generation.isascii() and generation.isdigit()):
        return None
    return [*_tests(uid, int(generation)), {"op": "replace", "path": path, "value": value}]


def test_state(found: JsonObject) -> Patch:
    """Return a patch that fails if the spec of an object has changed since the object was read."""
    return _tests(found["metadata"]["uid"], found["metadata"]["generation"])


def set_label(key: str, labels: Mapping[str, str], *, has_labels: bool) -> Patch:
    """Return a patch that sets one label of an object, or all its labels if it has none."""
    if not has_labels:
        return [{"op": "add", "path": "/metadata/labels", "value": labels}]
    pointer = key.replace("~", "~0").replace("/", "~1")
    return [{"op": "add", "path": f"/metadata/labels/{pointer}", "value": labels[key]}]


def remove_managed_fields() -> Patch:
    """Return a patch that removes the managed fields of an object.

    The API server then stops recording which client changed which field. This record doubles the processor time that
    the API server needs for a change. Lodge does not need it, because only Lodge changes session records.
    """
    return [{"op": "add", "path": "/metadata/managedFields", "value": [{}]}]


def remove_finalizer(found: JsonObject) -> Patch:
    """Return a patch that removes Lodge's finalizer from an object.

    The patch fails if the spec has changed since the object was read.
    """
    metadata = found["metadata"]
    path = f"/metadata/finalizers/{metadata['finalizers'].index(FINALIZER)}"
    return [
        *test_state(found),
        {"op": "test", "path": path, "value": FINALIZER},
        {"op": "remove", "path": path},
    ]


def _tests(uid: str, generation: int) -> Patch:
    return [
        {"op": "test", "path": "/metadata/uid", "value": uid},
        {"op": "test", "path": "/metadata/generation", "value": generation},
    ]
