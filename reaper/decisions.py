"""What the reaper may do, decided from what it saw: no I/O, no clock, no randomness.

Why it exists: what is deleted by mistake is lost, so the rules that decide it stand alone, where they can be
read in one go and tried with any history. :mod:`reaper.reaper` looks, asks here, and acts.

Guarantees:

1. An ``ACTIVE`` session with a holder that is not lost is never ended.
2. An ``ACTIVE`` session is ended once each look during the whole grace period found it at the same version,
   with no holder or only lost ones. Any change of its record is a sign of life and begins the period anew.
3. An ``ENDING`` session is finished once it has no holder that is not lost, or was seen ``ENDING`` for the
   grace period.
4. A location is an orphan once each look during the whole grace period found it, with no record that names
   it.
5. Times are those of the reaper's own monotonic clock. What was there is taken to be there only from the end
   of the first look that saw it to the beginning of the last, so a reaper that was paused in the middle of a
   look decides nothing early.
6. Of the trash, all is purged but the location of a session that still has a record: who ends that session
   will see from it that there was a location.

Guarantee 4 needs looks whose locations were listed before the records were: then a session born in between is
in the second list, or in neither.

Source: design, "Session records, leases and the reaper".
"""

from collections.abc import Hashable, Iterable, Mapping, Set
from dataclasses import dataclass, field
from typing import TypeVar

from workspace.locations import TrashEntry, is_whole_location
from workspace.records import Phase, ReplicaId, SessionUuid, StoredRecord

_Key = TypeVar("_Key", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Look:
    """What one pass of the reaper saw.

    Attributes:
        locations: The session locations; listed before the records.
        records: All session records.
        leased: The replicas that have a lease.
        lost: The replicas whose lease is lost.
        trash: What was set aside and not purged yet.
        begun_seconds: The reaper's monotonic clock before it looked.
        ended_seconds: The reaper's monotonic clock after it had looked.
    """

    locations: Set[SessionUuid]
    records: tuple[StoredRecord, ...]
    leased: Set[ReplicaId]
    lost: Set[ReplicaId]
    trash: tuple[TrashEntry, ...]
    begun_seconds: float
    ended_seconds: float

    def is_held(self, stored: StoredRecord) -> bool:
        """Whether a replica that is not lost holds the session."""
        return not stored.record.holders <= self.lost

    def named_sessions(self) -> Set[SessionUuid]:
        return {stored.record.session_uuid for stored in self.records}


@dataclass(frozen=True, slots=True)
class Watch:
    """What was seen at each look up to now, with the time at which the first of these looks had ended.

    Attributes:
        abandoned: ``ACTIVE`` records, each at one version, whose holders are all lost or that have none.
        ending: Sessions that are ``ENDING``.
        unnamed: Locations that no record names.
    """

    abandoned: Mapping[StoredRecord, float] = field(default_factory=dict)
    ending: Mapping[SessionUuid, float] = field(default_factory=dict)
    unnamed: Mapping[SessionUuid, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Decisions:
    """What to do now; each part may be done or left in any order.

    Attributes:
        end: Sessions whose holders are gone.
        finish: Sessions whose end someone else began and did not complete.
        forget: Sessions that go on, with the lost replicas to take out of their holders.
        orphans: Locations to remove.
        leases: Leases of lost replicas that no record names.
        purge: Entries of the trash.
    """

    end: tuple[StoredRecord, ...]
    finish: tuple[StoredRecord, ...]
    forget: tuple[tuple[StoredRecord, frozenset[ReplicaId]], ...]
    orphans: tuple[SessionUuid, ...]
    leases: tuple[ReplicaId, ...]
    purge: tuple[TrashEntry, ...]


def watched(previous: Watch, look: Look) -> Watch:
    """The watch after one more look."""
    active = [stored for stored in look.records if stored.record.phase is Phase.ACTIVE]
    ending = [stored for stored in look.records if stored.record.phase is Phase.ENDING]
    seen = look.ended_seconds
    return Watch(
        abandoned=_since(previous.abandoned, (s for s in active if not look.is_held(s)), seen),
        ending=_since(previous.ending, (s.record.session_uuid for s in ending), seen),
        unnamed=_since(previous.unnamed, look.locations - look.named_sessions(), seen),
    )


def decided(watch: Watch, look: Look, grace_period_seconds: float) -> Decisions:
    """What to do after a look that the watch has taken in already."""
    since = look.begun_seconds - grace_period_seconds
    abandoned = _up_to(watch.abandoned, since)
    stuck = _up_to(watch.ending, since)
    orphans = _up_to(watch.unnamed, since)
    held = [stored for stored in look.records if look.is_held(stored)]
    named_replicas = frozenset[ReplicaId]().union(*(stored.record.holders for stored in look.records))
    return Decisions(
        end=tuple(stored for stored in look.records if stored in abandoned),
        finish=tuple(
            stored
            for stored in look.records
            if stored.record.phase is Phase.ENDING and (not look.is_held(stored) or stored.record.session_uuid in stuck)
        ),
        forget=tuple(
            (stored, stored.record.holders & look.lost)
            for stored in held
            if stored.record.phase is Phase.ACTIVE and stored.record.holders & look.lost
        ),
        orphans=tuple(sorted(orphans)),
        leases=tuple(sorted((look.leased & look.lost) - named_replicas)),
        purge=tuple(entry for entry in look.trash if not _is_location_of(entry, look.named_sessions())),
    )


def _is_location_of(entry: TrashEntry, sessions: Set[SessionUuid]) -> bool:
    return is_whole_location(entry) and entry.partition(".")[0] in sessions


def _since(previous: Mapping[_Key, float], present: Iterable[_Key], seen_seconds: float) -> Mapping[_Key, float]:
    return {key: previous.get(key, seen_seconds) for key in present}


def _up_to(since: Mapping[_Key, float], limit_seconds: float) -> Set[_Key]:
    return {key for key, first_seen_seconds in since.items() if first_seen_seconds <= limit_seconds}
