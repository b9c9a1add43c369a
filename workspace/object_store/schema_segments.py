"""Remembered schemas as objects: ``<prefix>/.lodge/scan-schemas/<scan>/<segment>``.

The guarantees are those of :mod:`workspace.schema_segments`. An object appears completely or not at all.
"""

from collections.abc import Sequence

from workspace.object_store.addresses import ObjectAddress
from workspace.object_store.bucket import Bucket
from workspace.object_store.keys import Keys
from workspace.schema_segments import ListedSegment, ScanKey, Segment, parse_segment

_MOST_DELETED = 1000


class ObjectSchemaSegments:
    """The segments of a Lodge installation with an object store as its default temporary workspace.

    Args:
        address: The address of the workspace.
    """

    def __init__(self, address: ObjectAddress) -> None:
        self._bucket = Bucket(address)
        self._prefix = Keys(address).scan_schemas

    def list(self, scan: ScanKey | None = None) -> Sequence[ListedSegment]:
        """Return the segments of a scan, or all segments."""
        found = []
        for page in self._bucket.pages(self._prefix if scan is None else f"{self._prefix}{scan}/"):
            for each in page:
                of_scan, _, name = each.key.removeprefix(self._prefix).partition("/")
                segment = parse_segment(of_scan, name)
                if segment is not None:
                    found.append(ListedSegment(segment, each.size_bytes))
        return found

    def read(self, segment: Segment) -> bytes | None:
        """Return the content of a segment, or None if it was removed."""
        return self._bucket.get(self._key(segment))

    def write(self, segment: Segment, content: bytes) -> None:
        """Write a new segment."""
        self._bucket.put(self._key(segment), content)

    def remove(self, segments: Sequence[Segment]) -> None:
        """Remove segments."""
        for start in range(0, len(segments), _MOST_DELETED):
            self._bucket.delete([self._key(segment) for segment in segments[start : start + _MOST_DELETED]])

    def _key(self, segment: Segment) -> str:
        return f"{self._prefix}{segment.scan}/{segment.name}"
