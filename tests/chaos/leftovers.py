"""Finds what ended sessions and statements left behind.

A live session has a record, and a location with exactly the directories of its tables.
"""

from collections.abc import Iterator, Sequence, Set

from tests.chaos.site import Site
from workspace.record_store import RecordsUnavailableError, StoredRecord
from workspace.records import Phase


def find_leftovers(site: Site, live: Set[str], tolerated: Set[str] = frozenset()) -> Sequence[str]:
    """Describe everything that should not exist, or that is missing.

    Args:
        site: The Lodge to check.
        live: Client session ids of live sessions.
        tolerated: Client session ids of sessions that may still exist.
    """
    try:
        return list(_remains(site, live, tolerated))
    except (OSError, RecordsUnavailableError) as error:
        return [f"it cannot be read: {error}"]


def find_pending_changes(site: Site, live: Set[str]) -> Sequence[str]:
    """Describe the pending changes of these sessions."""
    try:
        return [
            f"a {type(change).__name__} in session {stored.record.client_session_id}"
            for stored in site.records()
            if stored.record.client_session_id in live
            for changes in (stored.record.writes, *(table.pending_changes for table in stored.record.tables))
            for change in changes
        ]
    except RecordsUnavailableError as error:
        return [f"it cannot be read: {error}"]


def find_tracebacks(site: Site) -> Sequence[str]:
    """Describe the tracebacks in the logs of all replicas."""
    return [
        f"{name} logged a traceback: {line[:2000]}"
        for name, log in site.logs().items()
        for line in log.splitlines()
        if "Traceback" in line
    ]


def _remains(site: Site, live: Set[str], tolerated: Set[str]) -> Iterator[str]:
    locations = site.locations()
    trash = site.trash()
    records = site.records()
    of_others = {path.name.partition(".")[0] for path in trash}
    for stored in records:
        record = stored.record
        if record.client_session_id in live:
            yield from _leftovers_of_live_session(site, stored)
        elif record.client_session_id not in tolerated:
            yield f"the {record.phase} record of session {record.client_session_id}, served by {sorted(record.holders)}"
    yield from (f"no record of session {session}" for session in live - {s.record.client_session_id for s in records})
    yield from (f"location {location}" for location in locations - {s.record.session_uuid for s in records})
    excused = {s.record.session_uuid for s in records if s.record.client_session_id in tolerated}
    yield from (f"trash of session {session}" for session in of_others - excused)
    if (leases := site.leases()) != len(site.gateways):
        yield f"{leases} leases of {len(site.gateways)} gateways"


def _leftovers_of_live_session(site: Site, stored: StoredRecord) -> Iterator[str]:
    record = stored.record
    if record.phase is Phase.ENDING or stored.is_deletion_requested:
        yield f"session {record.client_session_id} is ending"
    found = site.store.tables(record.session_uuid)
    yield from (f"directory {name} in location {record.session_uuid}" for name in found - record.directories)
    yield from (f"no directory {name} in location {record.session_uuid}" for name in record.directories - found)
