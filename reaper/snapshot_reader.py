"""Reads snapshots of locations, leases, records and hosts.

Guarantees:

1. A snapshot is complete. If one part cannot be read, there is no snapshot.
2. Locations, directories and trash are listed before leases, and leases are listed before records.
3. A snapshot may contain the locations of an earlier snapshot; see :class:`reaper.decisions.Snapshot`. Leases are
   always listed again.
4. If a storage period is set, listing locations takes at most ``STORAGE_SHARE`` of the time, even if the storage is
   slow.
"""

import threading
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass

import structlog

from reaper.decisions import Snapshot, named_replicas
from reaper.table_directories import LocationListing, TableDirectories
from workspace.identifiers import ReplicaId, SessionUuid, TableUuid
from workspace.leases import LeaseObserver, Leases, RenewalMark
from workspace.locations import SessionLocations
from workspace.record_store import StoredRecord
from workspace.trash_entries import TrashEntry

STORAGE_SHARE = 0.25

Running = Callable[[Mapping[ReplicaId, RenewalMark]], Set[ReplicaId]]


def find_none(_leases: Mapping[ReplicaId, RenewalMark]) -> Set[ReplicaId]:
    """Return no replica, because it is not known which of them run."""
    return frozenset()


@dataclass(frozen=True, slots=True)
class Hosts:
    """The known state of the replicas' hosts.

    Attributes:
        ended: The replicas whose pod has ended, as reported by the kubelet.
        doubted: The replicas whose pod is missing or whose node does not answer.
    """

    ended: frozenset[ReplicaId] = frozenset()
    doubted: frozenset[ReplicaId] = frozenset()


@dataclass(frozen=True, slots=True)
class _Storage:
    """The result of listing the storage once."""

    locations: Set[SessionUuid]
    tables: Mapping[SessionUuid, Set[TableUuid]]
    trash: Sequence[TrashEntry]
    begun_seconds: float
    ended_seconds: float


class SnapshotReader:
    """A reader of snapshots. Only ``observe_leases`` can be called from several threads.

    Args:
        read_records: A function that returns all session records, possibly with a small delay.
        leases: The leases of the gateway replicas.
        locations: The session locations.
        hosts: A function that returns the known state of the replicas' hosts.
        lease_duration_seconds: The lease duration of all replicas of the workspace.
        storage_period_seconds: The time for which a listing of the locations is reused. With 0, the locations are
            listed for each snapshot.
        monotonic: A function that returns the current time of a monotonic clock, in seconds.
        log: The logger for locations whose contents cannot be determined.
        on_step: A function that is called whenever the storage has answered.
        running: A function that returns which of some replicas certainly run, given their renewal marks. They are not
            lost, even if they do not renew their leases.
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
        on_step: Callable[[], object] = lambda: None,
        running: Running = find_none,
    ) -> None:
        self._read_records = read_records
        self._leases = leases
        self._locations = locations
        self._hosts = hosts
        self._storage_period_seconds = storage_period_seconds
        self._monotonic = monotonic
        self._log = log
        self._on_step = on_step
        self._running = running
        self._silent: Set[ReplicaId] = frozenset()
        self._tables = TableDirectories(locations, on_step)
        self._logged: Set[SessionUuid] = frozenset()
        self._storage: _Storage | None = None
        self._lease_duration_seconds = lease_duration_seconds
        self._observing = threading.Lock()
        self._observer = LeaseObserver(lease_duration_seconds)
        self._named: Set[ReplicaId] = frozenset()

    def read(self) -> Snapshot:
        """Read a snapshot.

        Raises:
            RecordsUnavailableError: If records or leases cannot be read.
            OSError: If the storage cannot be read.
        """
        storage = self._list_storage()
        begun_seconds = self._monotonic()
        leases = self._leases.list()
        self._on_step()
        records = self._read_records()
        self._on_step()
        hosts = self._hosts()
        ended_seconds = self._monotonic()
        with self._observing:
            self._named = named_replicas(records)
            self._observer.observe(leases, self._named, ended_seconds)
            lost = self._without_running(self._observer.lost(begun_seconds), leases)
            lease_changes = self._observer.changes()
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
            lease_changes=lease_changes,
        )

    def read_lost(self) -> Set[ReplicaId]:
        """List the leases again, and return the lost replicas.

        Call this method after the records were read. A lost replica that returns renews its lease, and then changes its
        session records. If it returns after this list, a change of a record that was read before conflicts.

        Raises:
            RecordsUnavailableError: If the leases cannot be read.
        """
        begun_seconds = self._monotonic()
        leases = self._leases.list()
        self._on_step()
        with self._observing:
            self._observer.observe(leases, self._named, self._monotonic())
            return self._without_running(self._observer.lost(begun_seconds), leases)

    def _without_running(self, lost: Set[ReplicaId], leases: Mapping[ReplicaId, RenewalMark]) -> Set[ReplicaId]:
        """Return the lost replicas whose process may have ended, and log the others once until this changes."""
        running = self._running({replica: leases[replica] for replica in lost & leases.keys()})
        for replica in running - self._silent:
            self._log.warning(
                "silent_replica_runs",
                replica=replica,
                reason="Its process runs, but does not renew its lease. Check the storage that this gateway sees.",
            )
        self._silent = running
        return lost - running

    def observe_leases(self, leases: Mapping[ReplicaId, RenewalMark]) -> None:
        """Record the leases from a watch, between two snapshots.

        The leases may be outdated. This can only delay the moment at which a lease is considered lost.
        """
        with self._observing:
            self._observer.observe(leases, self._named, self._monotonic())

    def reset_lease_history(self) -> None:
        """Restart the observation of leases after a time without snapshots."""
        with self._observing:
            self._observer = LeaseObserver(self._lease_duration_seconds)

    def due_seconds(self) -> float:
        """Return the monotonic time at which the next snapshot may show a change.

        Requests for a pass are not taken into account.
        """
        with self._observing:
            lease_seconds = self._observer.due_seconds(self._monotonic())
        return min(lease_seconds, self._storage_due_seconds())

    def _storage_due_seconds(self) -> float:
        if self._storage is None or not self._storage_period_seconds:
            return float("-inf")
        took_seconds = self._storage.ended_seconds - self._storage.begun_seconds
        return self._storage.begun_seconds + max(self._storage_period_seconds, took_seconds / STORAGE_SHARE)

    def _list_storage(self) -> _Storage:
        begun_seconds = self._monotonic()
        if self._storage is not None and begun_seconds < self._storage_due_seconds():
            return self._storage
        self._storage = None
        locations = self._locations.list()
        self._on_step()
        listings = self._tables.read(locations, begun_seconds)
        trash = self._locations.trash()
        self._on_step()
        self._log_anomalies(listings)
        self._storage = _Storage(
            locations=locations,
            tables={session_uuid: listing.tables for session_uuid, listing in listings.items()},
            trash=tuple(trash),
            begun_seconds=begun_seconds,
            ended_seconds=self._monotonic(),
        )
        return self._storage

    def _log_anomalies(self, listings: Mapping[SessionUuid, LocationListing]) -> None:
        """Log each location whose contents cannot be determined, once until this changes."""
        odd = {session_uuid: listing for session_uuid, listing in listings.items() if listing.foreign or listing.error}
        for session_uuid in sorted(odd.keys() - self._logged):
            listing = odd[session_uuid]
            if listing.error is not None:
                self._log.warning("location_not_listed", session=session_uuid, reason=str(listing.error))
            else:
                self._log.info("foreign_directories_left", session=session_uuid, directories=listing.foreign)
        self._logged = odd.keys()
