"""Segments: the schemas of scanned files that gateways remember on the storage of the default temporary workspace.

A gateway writes a segment after it has discovered schemas. Other gateways, and the same gateway after a restart, read
the segments of a scan before they discover anything. This module and its implementations only store segments.
Gateways decide what a segment contains, and when it is removed.

Guarantees of an implementation:

1. A segment appears completely or not at all, and never changes.
2. Segments are private to Lodge, like its other files.
3. Any segment can be removed at any time. Removing a segment that no longer exists does nothing.
"""

import re
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NewType, Protocol

ScanKey = NewType("ScanKey", str)
"""What the segments of a scan have in common: 32 hexadecimal digits."""

_SCAN_KEY = re.compile(r"[0-9a-f]{32}")
_NAME = re.compile(r"([0-9]{10})-[0-9a-f]{16}")


@dataclass(frozen=True, slots=True)
class Segment:
    """The name of a segment.

    Attributes:
        scan: The scan to which the segment belongs.
        name: A unique name. It begins with the time at which the segment was written.

    Raises:
        ValueError: If the scan or the name has another form.
    """

    scan: ScanKey
    name: str

    def __post_init__(self) -> None:
        if not _SCAN_KEY.fullmatch(self.scan) or not _NAME.fullmatch(self.name):
            raise ValueError(f"The name {self.scan!r}/{self.name!r} is not that of a segment.")

    @classmethod
    def new(cls, scan: ScanKey) -> "Segment":
        """Return a unique name for a segment that is written now."""
        return cls(scan, f"{int(time.time()):010d}-{secrets.token_hex(8)}")

    @property
    def written_seconds(self) -> int:
        """When the segment was written, in seconds since the epoch."""
        return int(self.name.partition("-")[0])


@dataclass(frozen=True, slots=True)
class ListedSegment:
    """A segment in a listing."""

    segment: Segment
    size_bytes: int


class SchemaSegments(Protocol):
    """The segments of a Lodge installation. All methods block, and raise OSError if the storage fails."""

    def list(self, scan: ScanKey | None = None) -> Sequence[ListedSegment]:
        """Return the segments of a scan, or all segments. Files with other names are left out."""
        ...

    def read(self, segment: Segment) -> bytes | None:
        """Return the content of a segment, or None if it was removed."""
        ...

    def write(self, segment: Segment, content: bytes) -> None:
        """Write a new segment."""
        ...

    def remove(self, segments: Sequence[Segment]) -> None:
        """Remove segments."""
        ...


def parse_segment(scan: str, name: str) -> Segment | None:
    """Return the segment with a name that was found on the storage, or None if it is not the name of a segment."""
    try:
        return Segment(ScanKey(scan), name)
    except ValueError:
        return None
