"""The format of segments: schemas of files by the keys of the files.

A segment is a line with the version of the format, a checksum, and a table in Arrow's IPC format. The checksum includes
the key of the scan. Therefore a truncated, changed or foreign file is noticed before Arrow reads it, and so is a
segment in the directory of another scan.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

from gateway.scans.schema_cache import DIGEST_BYTES
from workspace.schema_segments import ScanKey

_VERSION = b"LODGE-SCHEMAS-1\n"
_CHECKSUM_BYTES = 32
_FRAME_BYTES = 4096
_ENTRY_BYTES = DIGEST_BYTES + 4
_SCHEMA_BYTES = 4
_TABLE = pa.schema([("file", pa.binary(DIGEST_BYTES)), ("schema", pa.dictionary(pa.int32(), pa.binary()))])


class SegmentError(ValueError):
    """Raised if a file is not a segment of the scan."""


def split_schemas(schemas: Mapping[bytes, bytes], max_bytes: int) -> Sequence[Mapping[bytes, bytes]]:
    """Return the schemas as parts whose segments have at most this size.

    The limit must be larger than a segment with the largest schema.
    """
    parts: list[dict[bytes, bytes]] = []
    free_bytes = 0
    distinct: set[bytes] = set()
    for digest, schema in schemas.items():
        size_bytes = _ENTRY_BYTES + (0 if schema in distinct else _SCHEMA_BYTES + len(schema))
        if not parts or size_bytes > free_bytes:
            parts.append({})
            distinct.clear()
            size_bytes = _ENTRY_BYTES + _SCHEMA_BYTES + len(schema)
            free_bytes = max_bytes - _FRAME_BYTES
        parts[-1][digest] = schema
        distinct.add(schema)
        free_bytes -= size_bytes
    return parts


def encode_segment(scan: ScanKey, schemas: Mapping[bytes, bytes]) -> bytes:
    """Return a segment with the schemas of files by their keys."""
    numbers: dict[bytes, int] = {}
    found = [numbers.setdefault(schema, len(numbers)) for schema in schemas.values()]
    columns = [
        pa.array(schemas, _TABLE.field("file").type),
        pa.DictionaryArray.from_arrays(pa.array(found, pa.int32()), pa.array(numbers, pa.binary())),
    ]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, _TABLE) as stream:
        stream.write_table(pa.table(columns, schema=_TABLE))
    content: bytes = sink.getvalue().to_pybytes()
    return _VERSION + _checksum(scan, content) + content


def decode_segment(scan: ScanKey, segment: bytes) -> Mapping[bytes, bytes]:
    """Return the schemas in a segment.

    Raises:
        SegmentError: If it is not a segment of the scan.
    """
    start = len(_VERSION) + _CHECKSUM_BYTES
    content = segment[start:]
    if segment[:start] != _VERSION + _checksum(scan, content):
        raise SegmentError("The checksum or the version of the format is wrong.")
    try:
        table = pa.ipc.open_stream(content).read_all()
    except pa.ArrowInvalid as error:
        raise SegmentError(str(error)) from None
    if table.schema != _TABLE:
        raise SegmentError("The columns are wrong.")
    if table["schema"].null_count:
        raise SegmentError("A schema is missing.")
    return dict(zip(table["file"].to_pylist(), _shared_values(table["schema"]), strict=True))


def _shared_values(column: pa.ChunkedArray) -> Iterator[bytes]:
    """Return the values of a column. Equal values are the same object, because many files have the same schema."""
    for chunk in column.chunks:
        values = chunk.dictionary.to_pylist()
        yield from (values[number] for number in chunk.indices.to_pylist())


def _checksum(scan: ScanKey, content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=_CHECKSUM_BYTES, key=scan.encode()).digest()
