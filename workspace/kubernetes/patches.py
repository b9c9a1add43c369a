"""Changes of ConnectSession objects as patches that test what they change.

Why it exists: a patch that names the state it is for is compare-and-swap in one request; the API server applies it as a
whole or, if a test fails, not at all.

Source: RFC 6902.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from workspace.kubernetes.api_server import JsonObject
from workspace.kubernetes.connect_session_objects import FINALIZER
from workspace.records import Version

CONTENT_TYPE = "application/json-patch+json"

Patch = Sequence[Mapping[str, Any]]


def at_version(version: Version, path: str, value: Any) -> Patch | None:
    """Replaces a part of the object if it is still at the version; None if there can be no such version."""
    uid, _, generation = version.rpartition(".")
    if not uid or not (generation.isascii() and generation.isdigit()):
        return None
    return [*_tests(uid, int(generation)), {"op": "replace", "path": path, "value": value}]


def removal_of_finalizer(found: JsonObject) -> Patch:
    """Takes Lodge's finalizer off the object if its spec is as it was found."""
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
