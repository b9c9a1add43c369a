"""The JSON form of session records, used in files and in the Kubernetes API.

Different releases of Lodge may use the same records. A release must either understand a record or refuse it.
Therefore, each document has a format version. A document with an unknown version is refused, because the parts that
the release does not understand would be lost when the record is written again.

Guarantees:

1. Decoding an encoded record returns an equal record. If this is not possible for a record, encoding it raises
   ValueError. As a result, no process can store a record that cannot be read later.
2. A decoded record has values of the correct types, and all UUIDs that are used in paths are canonical. Any other
   content raises ValueError.
3. A pending drop of a table is stored as an entry of the table's ``writes`` with the kind ``Drop``. All releases can
   read this form.
4. ``suspects`` and ``relations`` are stored only if there are any. A release that does not know one of them reads the
   rest, and drops it when it writes the record.
5. A record in which single partitions or tables are replaced, rows are rewritten, parts are merged, or a table has
   altered columns or properties, or gets another name, has the format 3. Releases that do not know them refuse it. All
   other records have the format 2, which these releases know.
"""

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import TypeAdapter
from pydantic_core import from_json

from workspace.identifiers import check_uuid
from workspace.records import SessionRecord, WriteKind

_COMMON: Literal[2] = 2
_EXTENDED: Literal[3] = 3
_DROP = "Drop"
_OPTIONAL_OF_TABLES = ("replacements", "schema", "properties")
_COMMON_KINDS = frozenset({WriteKind.CREATION, WriteKind.INSERTION, WriteKind.OVERWRITING})


@dataclass(frozen=True, slots=True)
class _Document:
    format: Literal[2, 3]
    record: SessionRecord


_DOCUMENT = TypeAdapter(_Document)


def encode_record(record: SessionRecord) -> bytes:
    """Encode a session record as JSON.

    Raises:
        ValueError: If JSON cannot represent a part of the record, for example a lone surrogate.
    """
    return json.dumps(to_document(record), indent=1, ensure_ascii=False).encode() + b"\n"


def decode_record(content: bytes) -> SessionRecord:
    """Decode a session record from JSON.

    Raises:
        ValueError: If the content is not a valid record. The message contains the reason.
    """
    return from_document(from_json(content))


def to_document(record: SessionRecord) -> Mapping[str, Any]:
    """Convert a record to the JSON document that :func:`encode_record` writes.

    Raises:
        ValueError: If JSON cannot represent a part of the record.
    """
    document: dict[str, Any] = _DOCUMENT.dump_python(_Document(_format_of(record), record), mode="json", warnings=False)
    document["record"]["holders"].sort()
    _remove_empty(document["record"], "suspects", "relations")
    of_tables = (write for table in document["record"]["tables"] for write in table["writes"])
    for write in (*document["record"]["writes"], *of_tables):
        _remove_empty(write, "partitions", "former_schema", "definition", "is_overtaken", "other_name")
        if "definition" in write:
            _remove_empty(write["definition"], *_OPTIONAL_OF_TABLES)
    for table in document["record"]["tables"]:
        _remove_empty(table, *_OPTIONAL_OF_TABLES)
        drop = table.pop("drop")
        if drop is not None:
            table["writes"].append(_stored_drop(table["uuid"], drop))
    if decode_record(json.dumps(document, ensure_ascii=False).encode()) != record:
        raise ValueError(f"The session record cannot be represented in JSON: {record!r}")
    return document


def from_document(document: Mapping[str, Any]) -> SessionRecord:
    """Convert the result of :func:`to_document` back to a record.

    Raises:
        ValueError: If the document is not a valid record. The message contains the reason.
    """
    return _check(_DOCUMENT.validate_python(_with_separate_drops(document)))


def _remove_empty(part: dict[str, Any], *names: str) -> None:
    for name in names:
        if not part[name]:
            del part[name]


def _format_of(record: SessionRecord) -> Literal[2, 3]:
    kinds = {write.kind for table in record.tables for write in table.writes}
    is_new = any(table.replacements or table.schema or table.properties for table in record.tables)
    return _EXTENDED if is_new or kinds - _COMMON_KINDS else _COMMON


def _check(document: _Document) -> SessionRecord:
    record = document.record
    check_uuid(record.session_uuid)
    for name in (*record.directories, *(table.uuid for table in record.tables)):
        check_uuid(name)
    return record


def _stored_drop(table_uuid: str, drop: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a pending drop as an entry of ``writes``.

    The directory of the entry is computed from the table and the operation. No directory ever has this name.
    """
    directory = str(uuid.uuid5(uuid.UUID(table_uuid), drop["operation_id"]))
    counts = {"rows": 0, "size_bytes": 0, "replaced": [], "replaced_rows": 0, "replaced_bytes": 0}
    return {**drop, "directory": directory, "kind": _DROP, "is_published": True, **counts}


def _with_separate_drops(document: Any) -> Any:
    """Return a document in which pending drops are separated from the writes.

    Raises:
        ValueError: If a table has more than one pending drop.
    """
    try:
        record = document["record"]
        tables = [_with_separate_drop(table) for table in record["tables"]]
    except (KeyError, TypeError, AttributeError):
        return document  # the validation reports the error
    return {**document, "record": {**record, "tables": tables}}


def _with_separate_drop(table: Mapping[str, Any]) -> Mapping[str, Any]:
    drops = [write for write in table["writes"] if write["kind"] == _DROP]
    if len(drops) > 1:
        raise ValueError("a table has more than one pending drop")
    writes = [write for write in table["writes"] if write["kind"] != _DROP]
    return {**table, "writes": writes, "drop": drops[0] if drops else None}
