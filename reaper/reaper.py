"""The reaper: looks again and again at what is there, and removes what is dead.

Why it exists: a gateway that dies cleans nothing up. Each pass looks at everything anew (level-triggered), so
nothing depends on a message that may get lost, and a pass that was cut short anywhere is made good by the
next.

Guarantees, beside those of :mod:`reaper.removals` and :mod:`reaper.work_queue`:

1. A pass that cannot read all records, leases and locations changes nothing, and drops what waited to be begun.
2. Nothing is removed for want of a record unless the storage of records was asked for it after the location was seen.
3. What fails for one session, location or trash entry does not stop the others, nor does what takes long.
4. Too many sessions that look dead at once are not ended without a person's word (:mod:`reaper.mass_expiry`).
5. Several reapers may run at once: they do nothing twice that may be done once only. One that may not act looks on, so
   that it can go on at once when it may.
6. Time during which it could not look does not count: grace periods, and the silence of leases, begin anew after a pass
   that was held back.
7. A session whose holders are gone is ended after at most the lease duration, the grace period and three
   passes; what a lost replica was writing is taken out of its record in the same time. An orphan is removed after
   the grace period and two passes. All while
   the storage answers, and if there is a pass whenever :meth:`Reaper.due_seconds` says.

The log's event names and fields are an interface.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from functools import partial

import structlog

from reaper.decisions import Decisions, History, Snapshot, confirm_orphans, decide, due_seconds, extend_history
from reaper.holds import MASS_EXPIRY, RECORDS, ROOT, STORAGE, Holds
from reaper.mass_expiry import NEVER, MassExpiry, MassExpiryRule, evaluate_mass_expiry
from reaper.pass_summary import PassSummary
from reaper.removals import Release, Removals
from reaper.reports import PassCompleted, Report, ReportHandler
from reaper.snapshot_reader import Hosts, SnapshotReader
from reaper.work_queue import Rest, Work, WorkKey, WorkQueue
from workspace.leases import Leases
from workspace.locations import SessionLocations
from workspace.records import (
    RecordsUnavailableError,
    ReplicaId,
    SessionRecords,
    SessionUuid,
    StoredRecord,
    TableUuid,
)
from workspace.root_identities import HomeMovedError, RootError
from workspace.session_end import EndingSession
from workspace.trash_entries import TrashEntry

_MOST_ASKED_FOR = 5
"""Of how many sessions the records are asked for one by one; of more, all records are read."""


@dataclass(frozen=True, slots=True)
class ReaperDependencies:
    """What else a reaper may know of and work with; what is left out does not matter where there is none.

    Attributes:
        read_records: Reads all session records as they were not long ago; None if only their storage is to be asked.
        hosts: What is known of where replicas run.
        release: Ends a session at its backend.
        confirmation: The token with which an operator confirmed a mass expiry.
        mass_expiry: When to ask for that.
        may_act: Whether this reaper is the one that acts; asked often, from any thread.
        report: Gets what is done.
    """

    read_records: Callable[[], Sequence[StoredRecord]] | None = None
    hosts: Callable[[], Hosts] = Hosts
    release: Release = lambda record: None
    confirmation: Callable[[], str | None] = lambda: None
    mass_expiry: MassExpiryRule = NEVER
    may_act: Callable[[], bool] = lambda: True
    report: ReportHandler = lambda report: None


NO_DEPENDENCIES = ReaperDependencies()
"""A reaper that knows nothing but records, leases and locations."""


@dataclass(frozen=True, slots=True)
class PassResult:
    """What the last pass that could look saw, for others to tell.

    Attributes:
        look: What there was.
        held: The sessions whose end waits for a person's word.
    """

    snapshot: Snapshot
    held: frozenset[SessionUuid]


class Reaper:
    """Looks and removes; see the module's guarantees. ``run_once`` is for one thread.

    Args:
        records: The session records.
        leases: The leases of gateway replicas.
        locations: The session locations of the default temporary workspace.
        lease_duration_seconds: As configured for all replicas of the workspace.
        grace_period_seconds: How long something must look dead before it is removed.
        storage_period_seconds: How old a listing of the locations may be; 0 lists them at each pass.
        monotonic: A clock, in seconds.
        log: Where events go.
        surroundings: What else there is.
    """

    def __init__(
        self,
        *,
        records: SessionRecords,
        leases: Leases,
        locations: SessionLocations,
        lease_duration_seconds: float,
        grace_period_seconds: float,
        monotonic: Callable[[], float],
        log: structlog.typing.FilteringBoundLogger,
        storage_period_seconds: float = 0.0,
        dependencies: ReaperDependencies = NO_DEPENDENCIES,
    ) -> None:
        self._records = records
        self._dependencies = dependencies
        self._grace_period_seconds = grace_period_seconds
        self._monotonic = monotonic
        self._log = log
        self.holds = Holds(log, self._report)
        self.snapshot_reader = SnapshotReader(
            read_records=self._read_records,
            leases=leases,
            locations=locations,
            hosts=dependencies.hosts,
            lease_duration_seconds=lease_duration_seconds,
            storage_period_seconds=storage_period_seconds,
            monotonic=monotonic,
            log=log,
        )
        self._stopping = threading.Event()
        self._removals = Removals(
            records=records,
            leases=leases,
            locations=locations,
            release=dependencies.release,
            should_stop=lambda: not self.may_act(),
            log=log,
            report=self._report,
        )
        self.ends = self._new_queue()
        self.purges = self._new_queue()
        self.seen: PassResult | None = None
        self._summary = PassSummary()
        self._history = History()
        self._mass_expiry = MassExpiry()
        self._announced_token = ""

    def run_once(self) -> PassSummary:
        """Makes a pass and does in this thread all that it decided.

        Raises: HomeMovedError; what this reaper was made with is not the truth any more.
        """
        summary = self.make_pass()
        self.ends.run_waiting()
        self.purges.run_waiting()
        return summary

    def make_pass(self) -> PassSummary:
        """Makes a pass, and leaves in ``ends`` and ``purges`` what is to be done.

        Raises: HomeMovedError
        """
        begun_seconds = self._monotonic()
        summary = self._summary = PassSummary()
        try:
            snapshot = self.snapshot_reader.read()
            self._history = extend_history(self._history, snapshot)
            decisions = self._due(decide(self._history, snapshot, self._grace_period_seconds), snapshot)
        except HomeMovedError:
            raise
        except (RecordsUnavailableError, OSError) as error:
            self._hold_back(error)
            summary.held_back = str(error)
            return summary
        self.holds.end(RECORDS, STORAGE, ROOT)
        self._judge_mass_expiry(snapshot)
        if self.may_act():
            self._offer(decisions, snapshot)
        self.seen = PassResult(snapshot, self._mass_expiry.held)
        self._report(PassCompleted(self._monotonic() - begun_seconds))
        return summary

    def due_seconds(self) -> float:
        """The monotonic time at which a pass may find something to do although nothing tells it."""
        due = due_seconds(self._history, self._monotonic(), self._grace_period_seconds)
        return min(due, self.snapshot_reader.due_seconds(), self.ends.retry_seconds(), self.purges.retry_seconds())

    def may_act(self) -> bool:
        return not self._stopping.is_set() and self._dependencies.may_act()

    def stop(self) -> None:
        """Begins nothing more, and leaves off what can be left off."""
        self._stopping.set()

    def _read_records(self) -> Sequence[StoredRecord]:
        return (self._dependencies.read_records or self._records.list)()

    def _hold_back(self, error: RecordsUnavailableError | OSError) -> None:
        self._history, self._mass_expiry = History(), MassExpiry()
        self.snapshot_reader.reset_lease_history()
        self.seen = None
        for queue in (self.ends, self.purges):
            queue.retain(frozenset())
        kind = RECORDS if isinstance(error, RecordsUnavailableError) else STORAGE
        self.holds.begin(ROOT if isinstance(error, RootError) else kind, str(error))

    def _due(self, decisions: Decisions, snapshot: Snapshot) -> Decisions:
        """Of what the storage showed, what was not done since; and of that, what the records of now do not name.

        Raises: RecordsUnavailableError
        """
        done = self.ends.done_since(snapshot.storage_seconds) | self.purges.done_since(snapshot.storage_seconds)

        def is_due(key: WorkKey) -> bool:
            return key not in done and self.ends.is_ready(key)

        decisions = replace(
            decisions,
            orphans=tuple(one for one in decisions.orphans if is_due(_orphan_key(one))),
            orphan_tables=tuple(one for one in decisions.orphan_tables if is_due(_table_key(*one))),
            purge=tuple(entry for entry in decisions.purge if WorkKey(entry) not in done),
        )
        if self._dependencies.read_records is None or not (decisions.orphans or decisions.orphan_tables):
            return decisions
        sessions = {*decisions.orphans, *(session_uuid for session_uuid, _ in decisions.orphan_tables)}
        return confirm_orphans(decisions, self._records_of(sessions))

    def _records_of(self, sessions: Set[SessionUuid]) -> Iterable[StoredRecord]:
        """At least the records that name these sessions, read from their storage.

        Raises: RecordsUnavailableError
        """
        if len(sessions) > _MOST_ASKED_FOR:
            return self._records.list()
        return [found for session_uuid in sessions if (found := self._records.find(session_uuid)) is not None]

    def _judge_mass_expiry(self, snapshot: Snapshot) -> None:
        dependencies, before = self._dependencies, self._mass_expiry
        state = evaluate_mass_expiry(before, snapshot, dependencies.mass_expiry, dependencies.confirmation())
        self._mass_expiry = state
        if not state.held:
            self.holds.end(MASS_EXPIRY)
        if not self.may_act():
            return
        if state.confirmed > before.confirmed:
            self._log.warning("mass_expiry_confirmed", sessions=len(state.confirmed), confirmed_with=before.token)
        if state.held:
            if state.token != self._announced_token:
                self.holds.end(MASS_EXPIRY)
            self._announced_token = state.token
            self.holds.begin(
                MASS_EXPIRY,
                f"{len(state.held)} of {state.all_sessions} sessions look dead at once; none of them is ended. Find "
                f"out why. If they are dead, confirm that with the token {state.token}.",
                sessions=len(state.held),
                of_sessions=state.all_sessions,
                confirm_with=state.token,
            )

    def _offer(self, decisions: Decisions, snapshot: Snapshot) -> None:
        work: dict[WorkKey, Work] = {}
        for key, todo in self._work(decisions, snapshot):
            work.setdefault(key, todo)
        self.ends.retain(work.keys())
        for key, todo in work.items():
            self.ends.offer(key, todo)
        for entry in decisions.purge:
            self._offer_purge(entry)

    def _work(self, decisions: Decisions, snapshot: Snapshot) -> Iterator[tuple[WorkKey, Work]]:
        """What is to be done; of what has the same key, the first."""
        removals, held = self._removals, self._mass_expiry.held
        for stored in decisions.finish:
            yield _session_key(stored), partial(self._end, stored, "end_not_finished")
        for stored in decisions.requested:
            yield _session_key(stored), partial(self._end, stored, "deletion_requested")
        for stored in decisions.end:
            if stored.record.session_uuid not in held:
                yield _session_key(stored), partial(self._end, stored, "holders_lost")
        forget, undo = dict(decisions.forget), dict(decisions.undo)
        for stored in forget.keys() | undo.keys():
            nobody = frozenset[ReplicaId]()
            change = partial(removals.change, stored, forget.get(stored, nobody), undo.get(stored, nobody))
            yield _session_key(stored), change
        for session_uuid in decisions.orphans:
            yield _orphan_key(session_uuid), partial(self._remove_orphan, session_uuid)
        records = {stored.record.session_uuid: stored for stored in snapshot.records}
        for session_uuid, table_uuid in decisions.orphan_tables:
            todo = partial(removals.remove_orphan_table, records[session_uuid], table_uuid)
            yield _table_key(session_uuid, table_uuid), todo
        for replica in decisions.leases:
            yield WorkKey(f"lease/{replica}"), partial(removals.delete_lease, replica)

    def _end(self, stored: StoredRecord, reason: str) -> bool | Rest:
        """Sets the locations aside. The rest may wait until that is done for all sessions that are to be ended."""
        succeeded, ending = self._removals.begin_end(stored)
        return succeeded if ending is None else partial(self._complete_end, stored, ending, reason)

    def _complete_end(self, stored: StoredRecord, ending: EndingSession, reason: str) -> bool:
        succeeded = self._removals.complete_end(stored, ending, reason)
        return succeeded and self._purge_of(stored.record.session_uuid)

    def _remove_orphan(self, session_uuid: SessionUuid) -> bool:
        return self._removals.remove_orphan(session_uuid) and self._purge_of(session_uuid)

    def _purge_of(self, session_uuid: SessionUuid) -> bool:
        for entry in self._removals.trash_of(session_uuid):
            self._offer_purge(entry)
        return True

    def _offer_purge(self, entry: TrashEntry) -> None:
        self.purges.offer(WorkKey(entry), partial(self._removals.purge, entry))

    def _report(self, report: Report) -> None:
        self._summary.take(report)
        self._dependencies.report(report)

    def _new_queue(self) -> WorkQueue:
        return WorkQueue(monotonic=self._monotonic, log=self._log, may_run=self.may_act)


def _session_key(stored: StoredRecord) -> WorkKey:
    return WorkKey(stored.record.session_uuid)


def _orphan_key(session_uuid: SessionUuid) -> WorkKey:
    return WorkKey(f"orphan/{session_uuid}")


def _table_key(session_uuid: SessionUuid, table_uuid: TableUuid) -> WorkKey:
    return WorkKey(f"table/{session_uuid}/{table_uuid}")
