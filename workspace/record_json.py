"""Session records as JSON, for storage in files.

Why it exists: what one release writes another must read, or refuse. The format carries a version: a reader
refuses a format it does not know, since writing it back would lose what it did not understand.

Guarantees:

1. What encoding returns, decoding takes, and makes the same record of it; otherwise encoding raises
   ValueError. So nobody can store a record that would then count as damaged.
2. What decoding returns has the right types, and UUIDs where they become paths. Whatever else the bytes are,
   it raises ValueError.
"""

import json
from dataclasses import asdict, dataclass
from typing import Literal

from pydantic import TypeAdapter

from workspace.names import checked_uuid
from workspace.records import SessionRecord

_FORMAT: Literal[2] = 2


@dataclass(frozen=True, slots=True)
class _Document:
    format: Literal[2]
    record: SessionRecord


_DOCUMENT = TypeAdapter(_Document)


def encoded(record: SessionRecord) -> bytes:
    """Raises: ValueError if the record has parts that cannot be stored, such as half a surrogate pair."""
    document = asdict(_Document(_FORMAT, record))
    content = json.dumps(document, indent=1, ensure_ascii=False, default=sorted).encode() + b"\n"
    if decoded(content) != record:
        raise ValueError(f"A session record that cannot be stored: {record!r}")
    return content


def decoded(content: bytes) -> SessionRecord:
    """Raises: ValueError saying what is wrong with the content."""
    record = _DOCUMENT.validate_json(content).record
    checked_uuid(record.session_uuid)
    for name in (*record.directories, *(table.uuid for table in record.tables)):
        checked_uuid(name)
    return record
