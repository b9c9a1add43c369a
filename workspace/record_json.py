"""The JSON form of session records, for files and for the Kubernetes API.

One release must read what another wrote, or refuse it. The document has a format version: a reader refuses a format
that it does not know, because writing the record back would lose what it did not understand.

Guarantees:

1. Decoding the result of encoding returns an equal record; a record for which this fails raises ValueError. So nobody
   can store a record that later counts as damaged.
2. A decoded record has the right types, and canonical UUIDs where they become paths. Any other content raises
   ValueError.
3. A pending drop is stored as an entry of ``writes`` of its table, with kind ``Drop``, as all releases read it.
"""

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import TypeAdapter
from pydantic_core import from_json

from workspace.identifiers import check_uuid
from workspace.records import SessionRecord

_FORMAT: Literal[2] = 2
_DROP = "Drop"


@dataclass(frozen=True, slots=True)
class _Document:
    format: Literal[2]
    record: SessionRecord


_DOCUMENT = TypeAdapter(_Document)


def encode_record(record: SessionRecord) -> bytes:
    """Encode a record as JSON.

    Raises:
        ValueError: If JSON cannot hold a part of it, such as half a surrogate pair.
    """
    return json.dumps(to_document(record), indent=1, ensure_ascii=False).encode() + b"\n"


def decode_record(content: bytes) -> SessionRecord:
    """Decode a record from JSON.

    Raises:
        ValueError: If the content is not a valid record; the message says why.
    """
    return from_document(from_json(content))


def to_document(record: SessionRecord) -> Mapping[str, Any]:
    """Convert a record to the JSON document that :func:`encode_record` writes.

    Raises:
        ValueError: If JSON cannot hold a part of it.
    """
    document: dict[str, Any] = _DOCUMENT.dump_python(_Document(_FORMAT, record), mode="json", warnings=False)
    document["record"]["holders"].sort()
    for table in document["record"]["tables"]:
        drop = table.pop("drop")
        if drop is not None:
            table["writes"].append(_stored_drop(table["uuid"], drop))
    if decode_record(json.dumps(document, ensure_ascii=False).encode()) != record:
        raise ValueError(f"This session record cannot be stored: {record!r}")
    return document


def from_document(document: Mapping[str, Any]) -> SessionRecord:
    """Convert a document of :func:`to_document` back to a record.

    Raises:
        ValueError: If the document is not a valid record; the message says why.
    """
    return _check(_DOCUMENT.validate_python(_with_separate_drops(document)))


def _check(document: _Document) -> SessionRecord:
    record = document.record
    check_uuid(record.session_uuid)
    for name in (*record.directories, *(table.uuid for table in record.tables)):
        check_uuid(name)
    return record


def _stored_drop(table_uuid: str, drop: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a pending drop as an entry of ``writes``.

    Its directory has a name that no directory ever has.
    """
    directory = str(uuid.uuid5(uuid.UUID(table_uuid), drop["operation_id"]))
    counts = {"rows": 0, "size_bytes": 0, "replaced": [], "replaced_rows": 0, "replaced_bytes": 0}
    return {**drop, "directory": directory, "kind": _DROP, "is_published": True, **counts}


def _with_separate_drops(document: Any) -> Any:
    """Return a stored document with the drop of each table taken out of its writes.

    Raises:
        ValueError: A table has more than one drop.
    """
    try:
        record = document["record"]
        tables = [_with_separate_drop(table) for table in record["tables"]]
    except (KeyError, TypeError, AttributeError):
        return document  # the validation says what is wrong
    return {**document, "record": {**record, "tables": tables}}


def _with_separate_drop(table: Mapping[str, Any]) -> Mapping[str, Any]:
    drops = [write for write in table["writes"] if write["kind"] == _DROP]
    if len(drops) > 1:
        raise ValueError("a table has more than one pending drop")
    writes = [write for write in table["writes"] if write["kind"] != _DROP]
    return {**table, "writes": writes, "drop": drops[0] if drops else None}
