"""What one pass of the reaper did, in numbers and names."""

from dataclasses import dataclass, field

from reaper.reports import (
    ActionFailed,
    HoldersForgotten,
    LeaseRemoved,
    OrphanRemoved,
    OrphanTableRemoved,
    Report,
    SessionReaped,
    TrashPurged,
    WritesUndone,
)
from workspace.records import ReplicaId, SessionUuid, TableUuid


@dataclass(slots=True)
class PassSummary:
    """What was done during one pass; what goes on in other threads may count for a later one.

    Attributes:
        held_back: Why the pass changed nothing; None if it could look.
        reaped: Sessions that were ended.
        orphans: Sessions whose location was removed, with no record left.
        forgotten: Lost replicas that were taken out of the holders of living sessions, with repetitions.
        undone: Sessions from which writes of lost replicas were taken out.
        orphan_tables: Directories that were removed from sessions that go on.
        leases: Lost replicas whose lease was deleted.
        purged: The number of trash entries purged.
        failures: The number of single things that failed; each was logged.
    """

    held_back: str | None = None
    reaped: list[SessionUuid] = field(default_factory=list)
    orphans: list[SessionUuid] = field(default_factory=list)
    forgotten: list[ReplicaId] = field(default_factory=list)
    undone: list[SessionUuid] = field(default_factory=list)
    orphan_tables: list[TableUuid] = field(default_factory=list)
    leases: list[ReplicaId] = field(default_factory=list)
    purged: int = 0
    failures: int = 0

    def take(self, report: Report) -> None:
        match report:
            case SessionReaped(stored):
                self.reaped.append(stored.record.session_uuid)
            case OrphanRemoved(session_uuid):
                self.orphans.append(session_uuid)
            case HoldersForgotten(_, replicas):
                self.forgotten.extend(sorted(replicas))
            case WritesUndone(stored):
                self.undone.append(stored.record.session_uuid)
            case OrphanTableRemoved(_, table_uuid):
                self.orphan_tables.append(table_uuid)
            case LeaseRemoved(replica):
                self.leases.append(replica)
            case TrashPurged():
                self.purged += 1
            case ActionFailed():
                self.failures += 1
            case _:
                pass
