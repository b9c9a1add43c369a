"""Conversion between session records and ConnectSession objects.

The output of ``kubectl get connectsessions`` must match the data on which Lodge bases its decisions. Therefore, the
session record is stored as the ``spec`` of the object, with field names in Kubernetes style, and the values of the
printer columns are stored together with it.

Guarantees:

1. :func:`stored_record` converts the result of :func:`spec_of` back to an equal record. A record that cannot be
   represented in the API raises ValueError.
2. A version identifies one state of the ``spec``. It does not change if only the ``status`` or the metadata change.
3. An object that is not a session record of this Lodge installation, or whose name does not match its session, raises
   ValueError.
4. The holder label of a record matches :func:`selector_of_holder` of each holder, and :func:`selector_of_watch` of each
   replica that the record concerns.

The schema of the objects is in ``helm/lodge/crds/connectsessions.yaml``.
"""

import hashlib
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from pydantic.alias_generators import to_camel, to_snake

from workspace.identifiers import RecordName, ReplicaId, check_record_name
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
HOLDER_LABEL = "sparklodge.io/holder"

_NO_HOLDER = "none"
_SEVERAL_HOLDERS = "several"
_LONGEST_LABEL = 63

_camel = lru_cache(to_camel)
_snake = lru_cache(to_snake)
_LARGEST_INTEGER = 2**63
_OWN_KEYS = frozenset({"format", "instance", "revision", "summary"})


def object_name(instance: str, name: RecordName) -> str:
    """Return the name of the ConnectSession object of a session record.

    Raises:
        ValueError: If the record name is not valid.
    """
    return f"{instance}-{check_record_name(name)}"


def record_name_of(found: JsonObject, instance: str) -> RecordName:
    """Return the name of the session record in a ConnectSession object.

    Raises:
        ValueError: If the object does not belong to this Lodge installation.
    """
    return check_record_name(RecordName(str(found["metadata"]["name"]).removeprefix(f"{instance}-")))


def new_object(record: SessionRecord, instance: str, revision: str) -> JsonObject:
    """Return a new ConnectSession object for a session record.

    Raises:
        ValueError: If the record cannot be represented in the API.
    """
    return {
        "apiVersion": f"{GROUP}/{API_VERSION}",
        "kind": KIND,
        "metadata": {
            "name": object_name(instance, record.name),
            "labels": labels_of_record(record, instance),
            "finalizers": [FINALIZER],
        },
        "spec": spec_of(record, instance, revision),
    }


def labels_of_record(record: SessionRecord, instance: str) -> dict[str, str]:
    """Return the labels of the ConnectSession object for a session record."""
    return labels_of(instance) | {SESSION_LABEL: record.session_uuid, HOLDER_LABEL: holder_label(record)}


def holder_label(record: SessionRecord) -> str:
    """Return the value of the holder label: the only holder, ``several`` or ``none``."""
    match tuple(record.holders):
        case ():
            return _NO_HOLDER
        case (holder,):
            return _label_of(holder)
        case _:
            return _SEVERAL_HOLDERS


def selector_of_holder(replica: ReplicaId) -> str:
    """Return a label selector that matches all records that a replica holds, and all with several holders."""
    return f"{HOLDER_LABEL} in ({_label_of(replica)},{_SEVERAL_HOLDERS})"


def selector_of_watch(replica: ReplicaId) -> str:
    """Return a label selector that matches all records that concern a replica."""
    return f"{HOLDER_LABEL} in ({_label_of(replica)},{_SEVERAL_HOLDERS},{_NO_HOLDER})"


def spec_of(record: SessionRecord, instance: str, revision: str) -> JsonObject:
    """Return the ``spec`` of the ConnectSession object for a session record.

    Raises:
        ValueError: If the record cannot be represented in the API.
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
    """Return the session record in a ConnectSession object.

    Raises:
        ValueError: If the object is not a valid record. The message contains the reason.
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
    """Return the version of the session record in a ConnectSession object."""
    return version_at(found, found["metadata"]["generation"])


def version_at(found: JsonObject, generation: int) -> Version:
    """Return the version that the session record in a ConnectSession object had at a generation."""
    return Version(f"{found['metadata']['uid']}.{generation}")


def revision_of(found: JsonObject) -> object:
    """Return the random revision that was written with Lodge's last change."""
    return found["spec"].get("revision")


def is_deletion_requested(found: JsonObject) -> bool:
    """Return whether the deletion of an object was requested from the API server."""
    return "deletionTimestamp" in found["metadata"]


def is_gone(found: JsonObject) -> bool:
    """Return whether the session record of a ConnectSession object is deleted.

    This is the case if only finalizers of other programs still prevent the deletion of the object.
    """
    return is_deletion_requested(found) and FINALIZER not in found["metadata"].get("finalizers", ())


def _label_of(replica: ReplicaId) -> str:
    """Return the label value of a replica: its id, or a hash if the id cannot be used."""
    if len(replica) <= _LONGEST_LABEL and replica not in {_NO_HOLDER, _SEVERAL_HOLDERS}:
        return replica
    return f"sha256-{hashlib.sha256(replica.encode()).hexdigest()[:40]}"


def _rename_keys(value: Any, rename: Callable[[str], str]) -> Any:
    """Return a JSON value in which the keys of all objects are renamed."""
    if isinstance(value, Mapping):
        return {rename(key): _rename_keys(part, rename) for key, part in value.items()}
    if isinstance(value, list):
        return [_rename_keys(part, rename) for part in value]
    if isinstance(value, int) and not -_LARGEST_INTEGER <= value < _LARGEST_INTEGER:
        raise ValueError(f"The Kubernetes API cannot represent the number {value}")
    return value
