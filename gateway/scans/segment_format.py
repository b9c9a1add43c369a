"""The format of segments: schemas of files by the keys of the files.

A segment is a line with the version of the format, a checksum, and a table in Arrow's IPC format. The checksum includes
the key of the scan. Therefore a truncated, changed or foreign file is noticed before Arrow reads it, and so is a
segment in the directory of another scan.
"""

import hashlib
from collections.abc import Mapping

import pyarrow as pa

from gateway.scans.schema_cache import DIGEST_BYTES
from workspace.schema_segments import ScanKey

_VERSION = b"LODGE-SCHEMAS-1\n"
_CHECKSUM_BYTES = 32
_TABLE = pa.schema([("file", pa.binary(DIGEST_BYTES)), ("schema", pa.dictionary(pa.int32(), pa.binary()))])


class SegmentError(ValueError):
    """Raised if a file is not a segment of the scan."""


def encode_segment(scan: ScanKey, schemas: Mapping[bytes, bytes]) -> bytes:
    """Return a segment with the schemas of files by their keys."""
    columns = [
        pa.array(schemas, _TABLE.field("file").type),
        pa.array(schemas.values(), pa.binary()).dictionary_encode(),
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
    return dict(zip(table["file"].to_pylist(), table["schema"].to_pylist(), strict=True))


def _checksum(scan: ScanKey, content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=_CHECKSUM_BYTES, key=scan.encode()).digest()
