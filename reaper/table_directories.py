"""The directories in session locations, which are listed only after changes.

In each pass, the reaper searches all session locations for directories to which no record refers. Listing all
locations each time would be too expensive, because the cost depends on the number of tables.

Guarantees:

1. Each read costs one ``lstat`` per location. In addition, a location is listed if it has changed since its last
   listing, or within ``SETTLED_SECONDS`` before that listing. File system clocks are so coarse that two changes may
   have the same time. Changes are detected by the change time, which the owner of a directory cannot set.
2. If a location cannot be read, it is treated as if it had no directories for now. The other locations are still
   listed.
"""

from collections.abc import Callable, Hashable, Mapping, MutableMapping, Sequence, Set
from dataclasses import dataclass, replace

from workspace.identifiers import SessionUuid, TableUuid
from workspace.locations import RootContents, SessionLocations

SETTLED_SECONDS = 5.0

_Stamps = tuple[Hashable, ...]


@dataclass(frozen=True, slots=True)
class LocationListing:
    """The directories in the locations of a session when they were last listed.

    Attributes:
        stamps: The stamp of the location in each root. Empty if the locations could not be listed.
        since_seconds: The monotonic time when these stamps were first read.
        listed_seconds: The monotonic time when the locations were listed.
        tables: The directories whose names are UUIDs.
        foreign: The number of other directories.
        error: The error if the locations could not be listed, otherwise None.
    """

    stamps: _Stamps
    since_seconds: float
    listed_seconds: float
    tables: Set[TableUuid] = frozenset()
    foreign: int = 0
    error: OSError | None = None

    def is_settled(self) -> bool:
        """Return whether equal stamps prove that nothing has changed since the listing."""
        return self.error is None and self.listed_seconds - self.since_seconds >= SETTLED_SECONDS


class TableDirectories:
    """A cache of the directories in session locations.

    For the guarantees, see the module docstring.

    Args:
        locations: The session locations.
        on_step: A function that is called after each location.
    """

    def __init__(self, locations: SessionLocations, on_step: Callable[[], object] = lambda: None) -> None:
        self._locations = locations
        self._on_step = on_step
        self._listings: Mapping[SessionUuid, LocationListing] = {}

    def read(self, sessions: Set[SessionUuid], now_seconds: float) -> Mapping[SessionUuid, LocationListing]:
        """Return the directories in the locations of the given sessions.

        Raises:
            OSError: If a root cannot be read.
        """
        roots = self._locations.roots()
        listings: MutableMapping[SessionUuid, LocationListing] = {}
        for session_uuid in sessions:
            try:
                listings[session_uuid] = self._read_one(roots, session_uuid, now_seconds)
            except OSError as error:
                listings[session_uuid] = LocationListing((), now_seconds, now_seconds, error=error)
            self._on_step()
        self._listings = listings
        return listings

    def _read_one(
        self, roots: Sequence[RootContents], session_uuid: SessionUuid, now_seconds: float
    ) -> LocationListing:
        stamps = tuple(root.stamp(session_uuid) for root in roots)
        before = self._listings.get(session_uuid)
        if before is None or before.stamps != stamps:
            return _list(roots, session_uuid, LocationListing(stamps, now_seconds, now_seconds))
        if before.is_settled():
            return before
        return _list(roots, session_uuid, LocationListing(stamps, before.since_seconds, now_seconds))


def _list(roots: Sequence[RootContents], session_uuid: SessionUuid, listing: LocationListing) -> LocationListing:
    contents = [root.contents(session_uuid) for root in roots]
    tables = frozenset[TableUuid]().union(*(each.tables for each in contents))
    return replace(listing, tables=tables, foreign=sum(each.foreign_count for each in contents))
