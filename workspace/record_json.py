"""Session records as JSON, for storage in files and in the Kubernetes API.

Why it exists: what one release writes another must read, or refuse. The format carries a version: a reader
refuses a format it does not know, since writing it back would lose what it did not understand.

Guarantees:

1. What encoding returns, decoding takes, and makes the same record of it; otherwise encoding raises
   ValueError. So nobody can store a record that would then count as damaged.
2. What decoding returns has the right types, and UUIDs where they become paths. Whatever else the bytes are,
   it raises ValueError.
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
    """Raises: ValueError if the record has parts that cannot be stored, such as half a surrogate pair."""
    return json.dumps(to_document(record), indent=1, ensure_ascii=False).encode() + b"\n"


def decode_record(content: bytes) -> SessionRecord:
    """Raises: ValueError saying what is wrong with the content."""
    return _checked(_DOCUMENT.validate_json(content))


def to_document(record: SessionRecord) -> Mapping[str, Any]:
    """What :func:`encoded` writes, before it becomes bytes: the format, and the record. Raises: ValueError."""
    document: dict[str, Any] = _DOCUMENT.dump_python(_Document(_FORMAT, record), mode="json", warnings=False)
    document["record"]["holders"].sort()
    if decode_record(json.dumps(document, ensure_ascii=False).encode()) != record:
        raise ValueError(f"A session record that cannot be stored: {record!r}")
    return document


def from_document(document: Mapping[str, Any]) -> SessionRecord:
    """The record in what :func:`to_document` returned. Raises: ValueError saying what is wrong."""
    return _checked(_DOCUMENT.validate_python(document))


def _checked(document: _Document) -> SessionRecord:
    record = document.record
    check_uuid(record.session_uuid)
    for name in (*record.directories, *(table.uuid for table in record.tables)):
        check_uuid(name)
    return record
