"""JSON patches of ConnectSession objects that test what they change.

A patch that names its expected state is compare-and-swap in one request. The API server applies the whole patch, or
none of it if a test fails.

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
    """Return a patch that replaces a part of an object at a version.

    Returns None if no object can have that version.
    """
    uid, _, generation = version.rpartition(".")
    if not uid or not (generation.isascii() and generation.isdigit()):
        return None
    return [*_tests(uid, int(generation)), {"op": "replace", "path": path, "value": value}]


def remove_finalizer(found: JsonObject) -> Patch:
    """Return a patch that removes Lodge's finalizer.

    It fails if the spec has changed since the object was read.
    """
    metadata = found["metadata"]
    path = f"/metadata/finalizers/{metadata['finalizers'].index(FINALIZER)}"
    return [
        *_tests(metadata["uid"], metadata["generation"]),
        {"op": "test", "path": path, "value": FINALIZER},
        {"op": "remove", "path": path},
    ]


def _tests(uid: str, generation: int) -> Patch:
    return [
        {"op": "test", "path": "/metadata/uid", "value": uid},
        {"op": "test", "path": "/metadata/generation", "value": generation},
    ]
