"""The choice of the replica that adopts a session of a lost replica.

All replicas notice the loss of a replica. If each of them tried to adopt each session, nearly all of their requests
would be refused. This module chooses one replica for each session, without messages between the replicas.

Guarantees:

1. Replicas that see the same living replicas choose the same replica for each session (rendezvous hashing).
2. The sessions of a lost replica are spread among at most ``MOST_ADOPTERS`` replicas. The other replicas do not read
   the sessions before these replicas had the time to adopt them; see :meth:`Adoption.start_delay_seconds`.
3. A chosen replica is *silent* if none of the sessions for which it was chosen was adopted for ``patience_seconds``.
   The next replica in the ranking is then chosen for these sessions.
4. A replica never finds itself silent. Therefore, each replica finally chooses itself if all others are silent.

Not guaranteed: that only one replica chooses itself. Replicas that see different living replicas may choose
differently. The compare-and-swap of the session record decides which replica adopts the session.

The module has no I/O and no clock.

Source: [architecture "Session records, leases and the reaper"].
"""

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import chain

from workspace.identifiers import RecordName, ReplicaId
from workspace.record_store import StoredRecord
from workspace.records import PendingChange, Phase

MOST_ADOPTERS = 4
"""The number of replicas among which the sessions of a lost replica are spread."""

_LATE_PATIENCES = 4.0  # for adopting many sessions, before further replicas read the rest


def rank(subject: str, replicas: Iterable[ReplicaId]) -> Sequence[ReplicaId]:
    """Return the replicas in the order in which they are chosen for a subject."""
    return sorted(replicas, key=lambda replica: _weight(subject, replica), reverse=True)


def is_continuing(stored: StoredRecord) -> bool:
    """Return whether a session is active, and nobody has requested its end."""
    return stored.record.phase is Phase.ACTIVE and not stored.is_deletion_requested


def is_adoptable(stored: StoredRecord, lost: Set[ReplicaId]) -> bool:
    """Return whether a session continues, but no replica serves it except for lost replicas."""
    return is_continuing(stored) and stored.record.holders <= lost


def find_abandoned(stored: StoredRecord, lost: Set[ReplicaId]) -> Sequence[PendingChange]:
    """Return the pending changes that only lost replicas execute.

    The reaper undoes the creations of permanent tables that are not published.
    """
    record = stored.record
    changes = (change for table in record.tables for change in table.pending_changes)
    creations = (write for write in record.writes if write.is_published)
    return [change for change in chain(changes, creations) if change.replica in lost]


@dataclass(frozen=True, slots=True)
class _Share:
    """The sessions for which a replica was chosen.

    Attributes:
        names: The names of the session records.
        since_seconds: The monotonic time since which all these sessions are waiting.
    """

    names: frozenset[RecordName]
    since_seconds: float


class Adoption:
    """The choice of adopters for the sessions of one lost replica, as one living replica makes it.

    Args:
        replica: The replica that chooses.
        lost: The replica that was lost, or any other name for a group of sessions.
        patience_seconds: The time after which a chosen replica is silent.
        most_adopters: The number of replicas among which the sessions are spread. None for all living replicas.
    """

    def __init__(
        self, replica: ReplicaId, lost: str, *, patience_seconds: float, most_adopters: int | None = MOST_ADOPTERS
    ) -> None:
        self._replica = replica
        self._lost = lost
        self._patience_seconds = patience_seconds
        self._most_adopters = most_adopters
        self._silent: frozenset[ReplicaId] = frozenset()
        self._shares: Mapping[ReplicaId, _Share] = {}

    @property
    def chosen_replicas(self) -> Set[ReplicaId]:
        """The replicas that adopt the sessions that were waiting last."""
        return self._shares.keys()

    def start_delay_seconds(self, living: Set[ReplicaId]) -> float:
        """Return how long this replica waits before it reads the sessions for the first time.

        The wait is 0 for the replicas among which the sessions are spread at first.
        """
        if self._most_adopters is None:
            return 0.0
        group = rank(self._lost, living | {self._replica}).index(self._replica) // self._most_adopters
        return group * _LATE_PATIENCES * self._patience_seconds

    def choose(
        self, waiting: Collection[RecordName], living: Set[ReplicaId], now_seconds: float
    ) -> Sequence[RecordName]:
        """Return the sessions that this replica adopts now.

        Args:
            waiting: The sessions that nobody has adopted yet.
            living: The replicas that are not lost.
            now_seconds: The monotonic time before the sessions were listed.
        """
        names = frozenset(waiting)
        self._silent |= {
            replica
            for replica, share in self._shares.items()
            if replica != self._replica
            and share.names <= names
            and now_seconds - share.since_seconds >= self._patience_seconds
        }
        candidates = (living | {self._replica}) - self._silent
        adopters = rank(self._lost, candidates)[: self._most_adopters]
        chosen: dict[ReplicaId, list[RecordName]] = {}
        for name in waiting:
            chosen.setdefault(max(adopters, key=lambda replica: _weight(name, replica)), []).append(name)
        self._shares = {
            replica: _Share(frozenset(share), self._since(replica, names, now_seconds))
            for replica, share in chosen.items()
        }
        return chosen.get(self._replica, [])

    def _since(self, replica: ReplicaId, waiting: Set[RecordName], now_seconds: float) -> float:
        """Return since when a chosen replica has not adopted any session."""
        before = self._shares.get(replica)
        return now_seconds if before is None or not before.names <= waiting else before.since_seconds


def _weight(subject: str, replica: ReplicaId) -> bytes:
    return hashlib.blake2b(f"{subject} {replica}".encode(), digest_size=8).digest()
