"""The directories inside session locations, looked at only where something changed.

Why it exists: the reaper must find directories that no record names in each of many locations, at each pass. Listing
all of them each time would cost as much as there are tables.

Guarantees:

1. Each look costs one ``lstat`` per location, and one listing per location whose names changed since it was listed, or
   changed in the last ``SETTLED_SECONDS`` before that: a file system's clock ticks so seldom that two changes may look
   like one. A directory's owner cannot hide a change; what tells of it is the change time, which nobody can set.
2. A location that cannot be listed has no directories for now, and does not keep the others from being listed.
"""

from collections.abc import Hashable, Mapping, MutableMapping, Sequence, Set
from dataclasses import dataclass

from workspace.locations import LocationContents, RootContents, SessionLocations
from workspace.records import SessionUuid, TableUuid

SETTLED_SECONDS = 5.0

_Stamps = tuple[Hashable, ...]


@dataclass(frozen=True, slots=True)
class Known:
    """What is in a session's locations, as of its last listing.

    Attributes:
        stamps: What the locations were then, by root.
        since_seconds: When they were first seen so.
        listed_seconds: When they were listed.
        tables: The directories that can be tables.
        foreign: How many other directories there are.
        error: Why they could not be listed.
    """

    stamps: _Stamps
    since_seconds: float
    listed_seconds: float
    tables: Set[TableUuid] = frozenset()
    foreign: int = 0
    error: OSError | None = None

    def is_settled(self) -> bool:
        return self.error is None and self.listed_seconds - self.since_seconds >= SETTLED_SECONDS


class TableDirectories:
    """Remembers what was listed; see the module's guarantees."""

    def __init__(self, locations: SessionLocations) -> None:
        self._locations = locations
        self._known: Mapping[SessionUuid, Known] = {}

    def read(self, sessions: Set[SessionUuid], now_seconds: float) -> Mapping[SessionUuid, Known]:
        """What is in the locations of these sessions now. Raises: OSError if a root cannot be read."""
        roots = self._locations.roots()
        known: MutableMapping[SessionUuid, Known] = {}
        for session_uuid in sessions:
            stamps = tuple(root.stamp(session_uuid) for root in roots)
            before = self._known.get(session_uuid)
            if before is not None and before.stamps == stamps and before.is_settled():
                known[session_uuid] = before
            else:
                since = before.since_seconds if before is not None and before.stamps == stamps else now_seconds
                known[session_uuid] = _listed(roots, session_uuid, Known(stamps, since, now_seconds))
        self._known = known
        return known


def _listed(roots: Sequence[RootContents], session_uuid: SessionUuid, known: Known) -> Known:
    found: list[LocationContents] = []
    try:
        found.extend(root.contents(session_uuid) for root in roots)
    except OSError as error:
        return Known(known.stamps, known.since_seconds, known.listed_seconds, error=error)
    return Known(
        known.stamps,
        known.since_seconds,
        known.listed_seconds,
        frozenset[TableUuid]().union(*(inside.tables for inside in found)),
        sum(inside.foreign_count for inside in found),
    )
