"""Passes of a reaper whose work runs in the thread of the test."""

from dataclasses import dataclass, field, replace
from typing import Any

from reaper import reports
from reaper.holds import MASS_EXPIRY
from reaper.reaper import NO_DEPENDENCIES, Reaper, ReaperDependencies
from reaper.work_queue import WorkQueue
from workspace.identifiers import ReplicaId, SessionUuid


def run_waiting(queue: WorkQueue) -> None:
    """Run all waiting work in this thread."""
    while queue.run_next(0.0):
        pass


def run_pass(reaper: Reaper) -> None:
    """Make a pass, and run all its work in this thread."""
    reaper.make_pass()
    run_waiting(reaper.ends)
    run_waiting(reaper.purges)


@dataclass(slots=True)
class PassSummary:
    """What a reaper reported during one pass and its work.

    Attributes:
        held_back: Why the pass changed nothing; None if it could read everything.
        reaped: The sessions that were ended.
        orphans: The sessions without a record whose location was removed.
        forgotten: The replicas that were removed from holders, with repetitions.
        leases: The replicas whose lease was deleted.
        purged: The number of purged trash entries.
        failures: The number of failed actions.
    """

    held_back: str | None = None
    reaped: list[SessionUuid] = field(default_factory=list)
    orphans: list[SessionUuid] = field(default_factory=list)
    forgotten: list[ReplicaId] = field(default_factory=list)
    leases: list[ReplicaId] = field(default_factory=list)
    purged: int = 0
    failures: int = 0

    def take(self, report: reports.Report) -> None:
        match report:
            case reports.SessionReaped(stored):
                self.reaped.append(stored.record.session_uuid)
            case reports.OrphanRemoved(session_uuid):
                self.orphans.append(session_uuid)
            case reports.HoldersForgotten(_, replicas):
                self.forgotten.extend(replicas)
            case reports.LeaseRemoved(replica):
                self.leases.append(replica)
            case reports.TrashPurged():
                self.purged += 1
            case reports.ActionFailed():
                self.failures += 1


class SingleThreadReaper(Reaper):
    """A reaper that summarises each pass."""

    def __init__(self, *, dependencies: ReaperDependencies = NO_DEPENDENCIES, **parts: Any) -> None:
        self._summary = PassSummary()
        handlers = (*dependencies.report_handlers, lambda report: self._summary.take(report))
        super().__init__(dependencies=replace(dependencies, report_handlers=handlers), **parts)

    def run_once(self) -> PassSummary:
        self._summary = PassSummary()
        run_pass(self)
        reasons = (reason for kind, reason in self.holds.reasons.items() if kind != MASS_EXPIRY)
        return replace(self._summary, held_back=next(reasons, None))
