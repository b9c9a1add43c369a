"""The JSON form of session records, for files and for the Kubernetes API.

One release must read what another wrote, or refuse it. The document has a format version: a reader refuses a format
that it does not know, because writing the record back would lose what it did not understand.

Guarantees:

1. Decoding the result of encoding returns an equal record; a record for which this fails raises ValueError. So nobody
   can store a record that later counts as damaged.
2. A decoded record has the right types, and canonical UUIDs where they become paths. Any other content raises
   ValueError.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import TypeAdapter

from workspace.identifiers import check_uuid
from workspace.records import SessionRecord

_FORMAT: Literal[2] = 2


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
    return _check(_DOCUMENT.validate_json(content))


def to_document(record: SessionRecord) -> Mapping[str, Any]:
    """Convert a record to the JSON document that :func:`encode_record` writes.

    Raises:
        ValueError: If JSON cannot hold a part of it.
    """
    document: dict[str, Any] = _DOCUMENT.dump_python(_Document(_FORMAT, record), mode="json", warnings=False)
    document["record"]["holders"].sort()
    if decode_record(json.dumps(document, ensure_ascii=False).encode()) != record:
        raise ValueError(f"This session record cannot be stored: {record!r}")
    return document


def from_document(document: Mapping[str, Any]) -> SessionRecord:
    """Convert a document of :func:`to_document` back to a record.

    Raises:
        ValueError: If the document is not a valid record; the message says why.
    """
    return _check(_DOCUMENT.validate_python(document))


def _check(document: _Document) -> SessionRecord:
    record = document.record
    check_uuid(record.session_uuid)
    for name in (*record.directories, *(table.uuid for table in record.tables)):
        check_uuid(name)
    return record
