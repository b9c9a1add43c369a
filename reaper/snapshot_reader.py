"""Looks at all there is, again and again: locations, leases, records, and the hosts of gateways.

Guarantees:

1. A look is whole: if one part cannot be read, there is none.
2. Locations, directories and trash are listed before leases, and leases before records are read.
3. Locations may be those of an earlier look, as :class:`reaper.decisions.Snapshot` says; leases never are.
4. With a storage period, listing locations takes at most a part of the time, however slow the storage is; see
   ``STORAGE_SHARE``.
"""

import threading
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass

import structlog

from reaper.decisions import Snapshot, named_replicas
from reaper.table_directories import Known, TableDirectories
from workspace.leases import LeaseObserver, Leases, RenewalMark
from workspace.locations import SessionLocations
from workspace.records import ReplicaId, SessionUuid, StoredRecord, TableUuid
from workspace.trash_entries import TrashEntry

STORAGE_SHARE = 0.25


@dataclass(frozen=True, slots=True)
class Hosts:
    """What is known of where replicas run; see :class:`reaper.decisions.Snapshot`."""

    ended: frozenset[ReplicaId] = frozenset()
    doubted: frozenset[ReplicaId] = frozenset()


@dataclass(frozen=True, slots=True)
class _Storage:
    """What one listing of the storage found."""

    locations: Set[SessionUuid]
    tables: Mapping[SessionUuid, Set[TableUuid]]
    trash: Sequence[TrashEntry]
    begun_seconds: float
    ended_seconds: float


class SnapshotReader:
    """See the module's guarantees; all but ``see_leases`` is for one thread.

    Args:
        read_records: Reads all session records; what they were not long ago is enough.
        leases: The leases of gateway replicas.
        locations: The session locations.
        hosts: What is known of where replicas run, now.
        lease_duration_seconds: As configured for all replicas of the workspace.
        storage_period_seconds: How old a listing of the locations may be; 0 lists them at each look.
        monotonic: A clock, in seconds.
        log: Where it tells of what it cannot judge.
    """

    def __init__(
        self,
        *,
        read_records: Callable[[], Sequence[StoredRecord]],
        leases: Leases,
        locations: SessionLocations,
        hosts: Callable[[], Hosts],
        lease_duration_seconds: float,
        storage_period_seconds: float,
        monotonic: Callable[[], float],
        log: structlog.typing.FilteringBoundLogger,
    ) -> None:
        self._read_records = read_records
        self._leases = leases
        self._locations = locations
        self._hosts = hosts
        self._storage_period_seconds = storage_period_seconds
        self._monotonic = monotonic
        self._log = log
        self._tables = TableDirectories(locations)
        self._told: Set[SessionUuid] = frozenset()
        self._storage: _Storage | None = None
        self._lease_duration_seconds = lease_duration_seconds
        self._observing = threading.Lock()
        self._observer = LeaseObserver(lease_duration_seconds)
        self._named: Set[ReplicaId] = frozenset()

    def read(self) -> Snapshot:
        """Raises: RecordsUnavailableError, OSError."""
        storage = self._storage_now()
        begun_seconds = self._monotonic()
        leases = self._leases.list()
        records = self._read_records()
        hosts = self._hosts()
        ended_seconds = self._monotonic()
        with self._observing:
            self._named = named_replicas(records)
            self._observer.observe(leases, self._named, ended_seconds)
            lost = self._observer.lost(begun_seconds)
        return Snapshot(
            locations=storage.locations,
            records=records,
            leased=leases.keys(),
            lost=lost,
            trash=storage.trash,
            begun_seconds=begun_seconds,
            ended_seconds=ended_seconds,
            tables=storage.tables,
            storage_begun_seconds=storage.begun_seconds,
            ended=hosts.ended,
            doubted=hosts.doubted,
        )

    def observe_leases(self, leases: Mapping[ReplicaId, RenewalMark]) -> None:
        """Takes in what somebody else read of the leases just now, so that changes between two looks are seen when they
        happen. That may be old, or late: it only ever makes a lease seem younger."""
        with self._observing:
            self._observer.observe(leases, self._named, self._monotonic())

    def reset_lease_history(self) -> None:
        """Forgets how long leases stood still: who could not look does not know that."""
        with self._observing:
            self._observer = LeaseObserver(self._lease_duration_seconds)

    def due_seconds(self) -> float:
        """The monotonic time at which a look may see something new although nothing tells it."""
        with self._observing:
            lease_seconds = self._observer.due_seconds(self._monotonic())
        return min(lease_seconds, self._storage_due_seconds())

    def _storage_due_seconds(self) -> float:
        if self._storage is None or not self._storage_period_seconds:
            return float("-inf")
        took_seconds = self._storage.ended_seconds - self._storage.begun_seconds
        return self._storage.begun_seconds + max(self._storage_period_seconds, took_seconds / STORAGE_SHARE)

    def _storage_now(self) -> _Storage:
        begun_seconds = self._monotonic()
        if self._storage is not None and begun_seconds < self._storage_due_seconds():
            return self._storage
        self._storage = None
        locations = self._locations.list()
        inside = self._tables.read(locations, begun_seconds)
        trash = self._locations.trash()
        self._tell_of(inside)
        self._storage = _Storage(
            locations=locations,
            tables={session_uuid: known.tables for session_uuid, known in inside.items()},
            trash=tuple(trash),
            begun_seconds=begun_seconds,
            ended_seconds=self._monotonic(),
        )
        return self._storage

    def _tell_of(self, inside: Mapping[SessionUuid, Known]) -> None:
        """Logs what the reaper cannot judge in locations: once, while it stays so."""
        odd = {session_uuid: known for session_uuid, known in inside.items() if known.foreign or known.error}
        for session_uuid in sorted(odd.keys() - self._told):
            known = odd[session_uuid]
            if known.error is not None:
                self._log.warning("location_not_listed", session=session_uuid, reason=str(known.error))
            else:
                self._log.info("foreign_directories_left", session=session_uuid, directories=known.foreign)
        self._told = odd.keys()
