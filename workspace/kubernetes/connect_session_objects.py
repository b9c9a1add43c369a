"""Conversion between session records and ConnectSession objects.

What ``kubectl get connectsessions`` shows and what Lodge decides by must be the same. So the record is the ``spec`` of
the object, with field names in the style of Kubernetes, and the values of the printer columns are stored with it.

Guarantees:

1. :func:`stored_record` converts the result of :func:`spec_of` back to an equal record. A record that the API cannot
   hold raises ValueError.
2. A version names one state of the ``spec``. It stays the same when only the ``status`` or the metadata change.
3. An object that is no record of this Lodge, or has another name than its own identity, raises ValueError.

The schema is in ``helm/lodge/crds/connectsessions.yaml``.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from pydantic.alias_generators import to_camel, to_snake

from workspace.identifiers import RecordName, check_record_name
from workspace.kubernetes.api_server import JsonObject
from workspace.kubernetes.labels import labels_of
from workspace.record_json import from_document, to_document
from workspace.record_store import StoredRecord, Version
from workspace.records import SessionRecord

GROUP = "sparklodge.io"
API_VERSION = "v1alpha1"
KIND = "ConnectSession"
PLURAL = "connectsessions"
FINALIZER = "sparklodge.io/session-location"
SESSION_LABEL = "sparklodge.io/session"

_camel = lru_cache(to_camel)
_snake = lru_cache(to_snake)
_LARGEST_INTEGER = 2**63
_OWN_KEYS = frozenset({"format", "instance", "revision", "summary"})


def object_name(instance: str, name: RecordName) -> str:
    """Return the name of the object of a record.

    Raises:
        ValueError: If it is not the name of a session record.
    """
    return f"{instance}-{check_record_name(name)}"


def record_name_of(found: JsonObject, instance: str) -> RecordName:
    """Return the name of the record of an object.

    Raises:
        ValueError: If the object does not belong to this Lodge.
    """
    return check_record_name(RecordName(str(found["metadata"]["name"]).removeprefix(f"{instance}-")))


def new_object(record: SessionRecord, instance: str, revision: str) -> JsonObject:
    """Return a new object for a record.

    Raises:
        ValueError: If the API cannot hold the record.
    """
    return {
        "apiVersion": f"{GROUP}/{API_VERSION}",
        "kind": KIND,
        "metadata": {
            "name": object_name(instance, record.name),
            "labels": labels_of(instance) | {SESSION_LABEL: record.session_uuid},
            "finalizers": [FINALIZER],
        },
        "spec": spec_of(record, instance, revision),
    }


def spec_of(record: SessionRecord, instance: str, revision: str) -> JsonObject:
    """Return the ``spec`` of a record.

    Raises:
        ValueError: If the API cannot hold the record.
    """
    document = to_document(record)
    summary = {
        "gateway": ",".join(sorted(record.holders)),
        "tables": len(record.tables),
        "bytes": sum(table.size_bytes for table in record.tables),
    }
    return {
        "format": document["format"],
        "instance": instance,
        "revision": revision,
        "summary": summary,
        **_rename_keys(document["record"], _camel),
    }


def stored_record(found: JsonObject, instance: str) -> StoredRecord:
    """Return the record in an object.

    Raises:
        ValueError: If the object is not a valid record; the message says why.
    """
    try:
        metadata, spec = found["metadata"], found["spec"]
        parts = {key: value for key, value in spec.items() if key not in _OWN_KEYS}
        record = from_document({"format": spec["format"], "record": _rename_keys(parts, _snake)})
    except (KeyError, AttributeError, TypeError) as error:
        raise ValueError(f"it is not a session record ({type(error).__name__}: {error})") from error
    if metadata["name"] != object_name(instance, record.name):
        raise ValueError("it is the record of another session")
    return StoredRecord(record, version_of(found), is_deletion_requested(found))


def version_of(found: JsonObject) -> Version:
    """Return the version of the record in an object."""
    return Version(f"{found['metadata']['uid']}.{found['metadata']['generation']}")


def revision_of(found: JsonObject) -> object:
    """Return the random revision that Lodge's last change wrote."""
    return found["spec"].get("revision")


def is_deletion_requested(found: JsonObject) -> bool:
    """Return whether someone has asked the API server to delete an object."""
    return "deletionTimestamp" in found["metadata"]


def is_gone(found: JsonObject) -> bool:
    """Return whether only finalizers of others keep the object of a record.

    Lodge has deleted the record then.
    """
    return is_deletion_requested(found) and FINALIZER not in found["metadata"].get("finalizers", ())


def _rename_keys(value: Any, rename: Callable[[str], str]) -> Any:
    """Return a JSON value with the keys of all objects renamed."""
    if isinstance(value, Mapping):
        return {rename(key): _rename_keys(part, rename) for key, part in value.items()}
    if isinstance(value, list):
        return [_rename_keys(part, rename) for part in value]
    if isinstance(value, int) and not -_LARGEST_INTEGER <= value < _LARGEST_INTEGER:
        raise ValueError(f"The Kubernetes API cannot hold the number {value}")
    return value
