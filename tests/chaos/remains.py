"""What is left of sessions that are over, wherever something can be left; and of statements that are.

A session that goes on has its record, and a location that holds the directories of its tables and nothing else.
"""

from collections.abc import Iterator, Sequence, Set

from tests.chaos.site import Site
from workspace.records import Phase, RecordsUnavailableError, StoredRecord


def remains(site: Site, live: Set[str], tolerated: Set[str] = frozenset()) -> Sequence[str]:
    """Everything that ought not to be there, or to be, in words.

    Args:
        live: The clients' ids of the sessions that go on.
        tolerated: Those of sessions whose time is not over yet.
    """
    try:
        return list(_remains(site, live, tolerated))
    except (OSError, RecordsUnavailableError) as error:
        return [f"it cannot be read: {error}"]


def under_way(site: Site, live: Set[str]) -> Sequence[str]:
    """What is being written in these sessions, in words."""
    try:
        return [
            f"a {write.kind} in session {stored.record.client_session_id}"
            for stored in site.records()
            if stored.record.client_session_id in live
            for write in (*stored.record.writes, *(write for table in stored.record.tables for write in table.writes))
        ]
    except RecordsUnavailableError as error:
        return [f"it cannot be read: {error}"]


def _remains(site: Site, live: Set[str], tolerated: Set[str]) -> Iterator[str]:
    locations = site.locations()
    trash = site.trash()
    records = site.records()
    of_others = {path.name.partition(".")[0] for path in trash}
    for stored in records:
        record = stored.record
        if record.client_session_id in live:
            yield from _wrong_in(site, stored)
        elif record.client_session_id not in tolerated:
            yield f"the record of session {record.client_session_id}, {record.phase}, held by {sorted(record.holders)}"
    yield from (f"no record of session {session}" for session in live - {s.record.client_session_id for s in records})
    yield from (f"location {location}" for location in locations - {s.record.session_uuid for s in records})
    excused = {s.record.session_uuid for s in records if s.record.client_session_id in tolerated}
    yield from (f"trash of session {session}" for session in of_others - excused)
    if (leases := site.leases()) != len(site.gateways):
        yield f"{leases} leases of {len(site.gateways)} gateways"


def _wrong_in(site: Site, stored: StoredRecord) -> Iterator[str]:
    record = stored.record
    if record.phase is Phase.ENDING or stored.is_deletion_requested:
        yield f"session {record.client_session_id} is ending"
    location = site.location(record.session_uuid)
    found = {path.name for path in location.iterdir()} if location.exists() else set()
    yield from (f"directory {name} in location {location.name}" for name in found - record.directories)
    yield from (f"no directory {name} in location {location.name}" for name in record.directories - found)
