"""The directories inside session locations, listed only where something has changed.

The reaper searches all locations for directories that no record names, in each pass. Listing all of them each time
would cost as much as there are tables.

Guarantees:

1. Each read costs one ``lstat`` per location. It also costs one listing per location that has changed since its last
   listing, or within ``SETTLED_SECONDS`` before it: clocks of file systems are so coarse that two changes may look like
   one. The change time shows a change, and the owner of a directory cannot set it.
2. A location that cannot be listed has no directories for now. The other locations are listed.
"""

from collections.abc import Hashable, Mapping, MutableMapping, Sequence, Set
from dataclasses import dataclass, replace

from workspace.identifiers import SessionUuid, TableUuid
from workspace.locations import RootContents, SessionLocations

SETTLED_SECONDS = 5.0

_Stamps = tuple[Hashable, ...]


@dataclass(frozen=True, slots=True)
class LocationListing:
    """The directories in the locations of a session, as of their last listing.

    Attributes:
        stamps: The stamp of the location in each root.
        since_seconds: The clock when these stamps were first read.
        listed_seconds: The clock when the locations were listed.
        tables: The directories whose name is a UUID.
        foreign: The number of other directories.
        error: Why the locations could not be listed; None if they were.
    """

    stamps: _Stamps
    since_seconds: float
    listed_seconds: float
    tables: Set[TableUuid] = frozenset()
    foreign: int = 0
    error: OSError | None = None

    def is_settled(self) -> bool:
        """Return whether equal stamps prove that nothing has changed since."""
        return self.error is None and self.listed_seconds - self.since_seconds >= SETTLED_SECONDS


class TableDirectories:
    """A cache of listings; see the guarantees of the module."""

    def __init__(self, locations: SessionLocations) -> None:
        self._locations = locations
        self._listings: Mapping[SessionUuid, LocationListing] = {}

    def read(self, sessions: Set[SessionUuid], now_seconds: float) -> Mapping[SessionUuid, LocationListing]:
        """Return the directories in the locations of these sessions.

        Raises:
            OSError: If a root cannot be read.
        """
        roots = self._locations.roots()
        listings: MutableMapping[SessionUuid, LocationListing] = {}
        for session_uuid in sessions:
            stamps = tuple(root.stamp(session_uuid) for root in roots)
            before = self._listings.get(session_uuid)
            if before is not None and before.stamps == stamps and before.is_settled():
                listings[session_uuid] = before
            else:
                since = before.since_seconds if before is not None and before.stamps == stamps else now_seconds
                listings[session_uuid] = _list(roots, session_uuid, LocationListing(stamps, since, now_seconds))
        self._listings = listings
        return listings


def _list(roots: Sequence[RootContents], session_uuid: SessionUuid, listing: LocationListing) -> LocationListing:
    try:
        contents = [root.contents(session_uuid) for root in roots]
    except OSError as error:
        return replace(listing, error=error)
    tables = frozenset[TableUuid]().union(*(each.tables for each in contents))
    return replace(listing, tables=tables, foreign=sum(each.foreign_count for each in contents))
