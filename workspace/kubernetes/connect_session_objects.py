"""Session records as ConnectSession objects.

Why it exists: what people see with ``kubectl get connectsessions`` and what Lodge decides by must be the same thing.
So the record is the object's ``spec``, in the words of Kubernetes, and what the columns show is stored with it.

Guarantees:

1. What :func:`spec_of` returns, :func:`stored_record` takes from the object and makes the same record of it; a record
   that the API cannot hold raises ValueError.
2. A version names one state of the ``spec``: it stays when only the ``status`` or the metadata change.
3. An object that is no record of this Lodge, or not by the name that its own identity has, raises ValueError.

The shape is in ``helm/lodge/crds/connectsessions.yaml``.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from pydantic.alias_generators import to_camel, to_snake

from workspace.identifiers import check_record_name
from workspace.kubernetes.api_server import JsonObject
from workspace.kubernetes.labels import labels_of
from workspace.record_json import from_document, to_document
from workspace.records import RecordName, SessionRecord, StoredRecord, Version

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
    """Raises: ValueError if it is no name of a session record."""
    return f"{instance}-{check_record_name(name)}"


def record_name_of(found: JsonObject, instance: str) -> RecordName:
    """The name of the record that the object is, or was. Raises: ValueError if it is not of this Lodge."""
    return check_record_name(RecordName(str(found["metadata"]["name"]).removeprefix(f"{instance}-")))


def new_object(record: SessionRecord, instance: str, revision: str) -> JsonObject:
    """Raises: ValueError if the API cannot hold the record."""
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
    """Raises: ValueError if the API cannot hold the record."""
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
        **_spelled(document["record"], _camel),
    }


def stored_record(found: JsonObject, instance: str) -> StoredRecord:
    """Raises: ValueError saying what is wrong with the object."""
    try:
        metadata, spec = found["metadata"], found["spec"]
        parts = {key: value for key, value in spec.items() if key not in _OWN_KEYS}
        record = from_document({"format": spec["format"], "record": _spelled(parts, _snake)})
    except (KeyError, AttributeError, TypeError) as error:
        raise ValueError(f"it is no session record ({type(error).__name__}: {error})") from error
    if metadata["name"] != object_name(instance, record.name):
        raise ValueError("it is the record of another session")
    return StoredRecord(record, version_of(found), is_deletion_requested(found))


def version_of(found: JsonObject) -> Version:
    return Version(f"{found['metadata']['uid']}.{found['metadata']['generation']}")


def revision_of(found: JsonObject) -> object:
    return found["spec"].get("revision")


def is_deletion_requested(found: JsonObject) -> bool:
    return "deletionTimestamp" in found["metadata"]


def is_gone(found: JsonObject) -> bool:
    """Whether Lodge has deleted the record, and the object only stays for the sake of others' finalizers."""
    return is_deletion_requested(found) and FINALIZER not in found["metadata"].get("finalizers", ())


def _spelled(value: Any, spell: Callable[[str], str]) -> Any:
    """The same with the keys of all objects spelled anew."""
    if isinstance(value, Mapping):
        return {spell(key): _spelled(part, spell) for key, part in value.items()}
    if isinstance(value, list):
        return [_spelled(part, spell) for part in value]
    if isinstance(value, int) and not -_LARGEST_INTEGER <= value < _LARGEST_INTEGER:
        raise ValueError(f"A number that the Kubernetes API cannot hold: {value}")
    return value
