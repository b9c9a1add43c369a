"""A cache of the contents of session locations in an object store.

Each listing is a request that costs money. Therefore, the contents of a location are listed only once every few
minutes.

Not guaranteed: The contents may be up to ``relist_seconds`` old. If there are more locations than can be listed in
``LISTING_SECONDS``, the contents may be older, and may be missing at first.
"""

import math
import threading
import time
from collections.abc import Callable, Hashable, Mapping, MutableMapping, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain, islice

from workspace.identifiers import SessionUuid, TableUuid, check_uuid, is_uuid
from workspace.locations import LocationContents
from workspace.object_store.bucket import Bucket
from workspace.object_store.keys import Keys, Target

RELIST_SECONDS = 300.0
LISTING_SECONDS = 20.0
_LISTINGS = 16
_MAX_DIRECTORIES = 10_000


@dataclass(frozen=True, slots=True)
class _Listing:
    """The last listing of a session location.

    Attributes:
        result: The contents of the location. None if the location did not exist, or the error if the listing failed.
        at_seconds: The monotonic time of the listing.
    """

    result: LocationContents | OSError | None
    at_seconds: float


class ContentsCache:
    """The last known contents of session locations, in a thread-safe cache.

    Args:
        bucket: The bucket of the workspace.
        keys: The keys of the workspace.
        relist_seconds: The age after which a listing is repeated.
        monotonic: A function that returns the current time of a monotonic clock, in seconds.
    """

    def __init__(
        self,
        bucket: Bucket,
        keys: Keys,
        *,
        relist_seconds: float = RELIST_SECONDS,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._bucket = bucket
        self._keys = keys
        self._relist_seconds = relist_seconds
        self._monotonic = monotonic
        self._listings: MutableMapping[SessionUuid, _Listing] = {}
        self._lock = threading.Lock()

    def refresh(self, sessions: Set[SessionUuid]) -> Mapping[SessionUuid, LocationContents | OSError | None]:
        """List locations with unknown or outdated contents, and return all known contents.

        As many locations are listed as ``LISTING_SECONDS`` allows. Locations that were never listed come first. They
        are followed by the locations with the oldest attempts, whether or not these failed. Therefore, each location
        is listed eventually, even if many listings fail.
        """
        begun_seconds = self._monotonic()
        with self._lock:
            known = {each: listing for each, listing in self._listings.items() if each in sessions}
            self._listings = dict(known)

        def relist(session_uuid: SessionUuid) -> None:
            now_seconds = self._monotonic()
            if now_seconds - begun_seconds >= LISTING_SECONDS:
                return
            result: LocationContents | OSError | None
            try:
                result = self._list(session_uuid)
            except OSError as error:
                result = error
            with self._lock:
                self._listings[session_uuid] = _Listing(result, now_seconds)

        oldest_seconds = begun_seconds - self._relist_seconds
        fresh = {
            each
            for each, listing in known.items()
            if not isinstance(listing.result, OSError) and listing.at_seconds > oldest_seconds
        }
        due = sorted(sessions - fresh, key=lambda each: known[each].at_seconds if each in known else -math.inf)
        with ThreadPoolExecutor(_LISTINGS, thread_name_prefix="listings") as executor:
            for _ in executor.map(relist, due):
                pass
        with self._lock:
            return {each: self._listings[each].result for each in sessions if each in self._listings}

    def forget(self, session_uuid: SessionUuid) -> None:
        """Remove the listing of a location that has changed."""
        with self._lock:
            self._listings.pop(session_uuid, None)

    def _list(self, session_uuid: SessionUuid) -> LocationContents | None:
        names = self._bucket.names(self._keys.prefix(Target(session_uuid)))
        first = next(names, None)
        if first is None:
            return None
        directories = (name.removesuffix("/") for name in chain([first], names) if name.endswith("/"))
        found = list(islice(directories, _MAX_DIRECTORIES))
        tables = frozenset(TableUuid(name) for name in found if is_uuid(name))
        return LocationContents(tables, len(found) - len(tables))


class ObjectRoot:
    """The contents of session locations at one moment.

    Tables that were in the trash at that moment are not included.

    Args:
        trash: The targets in the trash.
        known: The known contents of each location. None if the location does not exist, or the error if it could not
            be listed.
    """

    def __init__(self, trash: Set[Target], known: Mapping[SessionUuid, LocationContents | OSError | None]) -> None:
        self._trash = trash
        self._known = known

    def stamp(self, session_uuid: SessionUuid) -> Hashable:
        """Return the contents of a location, which are also its stamp.

        An object store provides no other information about changes.
        """
        found = self._find(session_uuid)
        return str(found) if isinstance(found, OSError) else found

    def contents(self, session_uuid: SessionUuid) -> LocationContents:
        """Return the directories in a location.

        The result is empty if the location does not exist.

        Raises:
            OSError: If the location could not be listed.
        """
        found = self._find(session_uuid)
        if isinstance(found, OSError):
            raise found
        return found or LocationContents(frozenset(), 0)

    def _find(self, session_uuid: SessionUuid) -> LocationContents | OSError | None:
        check_uuid(session_uuid)
        found = self._known.get(session_uuid)
        if found is None or isinstance(found, OSError):
            return found
        removed = {table for table in found.tables if Target(session_uuid, table) in self._trash}
        return LocationContents(frozenset(found.tables - removed), found.foreign_count)
