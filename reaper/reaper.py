"""The reaper, which regularly reads the complete state and removes what is dead.

A gateway that dies leaves its sessions behind. Each pass of the reaper reads the complete state again, so lost
messages and aborted passes have no lasting effect.

Guarantees in addition to those of :mod:`reaper.removals` and :mod:`reaper.work_queue`:

1. If a pass cannot read all records, leases and locations, it does not change anything, and the waiting work is
   dropped.
2. An orphan is removed only if the record storage, when read after the location was listed, has no record for it.
3. A session, location or trash entry that is slow or causes errors does not delay the others.
4. After a mass expiry, sessions are ended only when a person has confirmed this (:mod:`reaper.mass_expiry`).
5. Several reapers may run at the same time. A reaper that may not act also reads the state. Therefore, it can act as
   soon as it is permitted to.
6. Time during which the reaper could not read the state, or could not write what a gateway must write, does not count.
   After a pass that was on hold, all grace periods and the observation of leases start again. While the reaper can read
   but not write, it only completes the ends that have begun or were requested, and purges the trash. The same holds
   for the pass after the reaper was paused, or the storage hung, for longer than the lease duration
   (:mod:`reaper.interruptions`).
7. If the storage answers each call within the lease duration, and a pass is made at each time that
   :meth:`Reaper.due_seconds` returns:

   - A session whose holders are gone is ended after at most the lease duration, the grace period and three passes. If
     another session of the same holders is adopted, this takes at most one grace period and three passes after that.
   - The pending writes of a lost replica are removed from their records in the same time.
   - An orphan is removed after at most the grace period and two passes.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from functools import partial

import structlog

from reaper.decisions import (
    Decisions,
    History,
    Snapshot,
    confirm_gone,
    confirm_orphans,
    decide,
    due_seconds,
    extend_history,
    forget_silence,
    only_ended,
)
from reaper.holds import MASS_EXPIRY, RECORDS, ROOT, STORAGE, WRITES, Holds
from reaper.interruptions import Interruptions
from reaper.mass_expiry import NEVER, MassExpiry, MassExpiryRule, evaluate_mass_expiry
from reaper.removals import Release, Removals
from reaper.reports import MassExpiryConfirmed, PassResult, Report, ReportHandler
from reaper.snapshot_reader import Hosts, Running, SnapshotReader, find_none
from reaper.work_queue import Rest, Work, WorkKey, WorkQueue
from workspace.identifiers import ReplicaId, SessionUuid, TableUuid
from workspace.leases import Leases
from workspace.locations import SessionLocations
from workspace.record_store import RecordsUnavailableError, SessionRecords, StoredRecord
from workspace.root_identities import HomeMovedError, HomeReplacedError, RootError
from workspace.session_end import EndingSession
from workspace.trash_entries import TrashEntry

HOME_ERRORS = (HomeMovedError, HomeReplacedError)
"""The errors after which a new reaper is needed."""

_MOST_SINGLE_READS = 5
"""The maximum number of records that are read individually. For more sessions, all records are listed."""


@dataclass(frozen=True, slots=True)
class ReaperDependencies:
    """The optional dependencies of a reaper.

    Attributes:
        read_records: A function that returns all session records, possibly with a small delay. None to read the record
            storage in each pass.
        hosts: A function that returns the known state of the replicas' hosts.
        running: A function that returns which of some replicas certainly run, given their renewal marks.
        release: A function that releases a session at its backend.
        confirmation: A function that returns the token with which an operator has confirmed a mass expiry.
        mass_expiry: The condition for a hold because of a mass expiry.
        may_act: A function that returns whether this reaper may act. It is called often, from any thread.
        check_writable: A function that raises RecordsUnavailableError if a gateway may have been unable to write since
            the last call. None to ask the storage of leases.
        report_handlers: Functions that are called with each report.
    """

    read_records: Callable[[], Sequence[StoredRecord]] | None = None
    hosts: Callable[[], Hosts] = Hosts
    running: Running = find_none
    release: Release = lambda record: None
    confirmation: Callable[[], str | None] = lambda: None
    mass_expiry: MassExpiryRule = NEVER
    may_act: Callable[[], bool] = lambda: True
    check_writable: Callable[[], None] | None = None
    report_handlers: tuple[ReportHandler, ...] = ()


NO_DEPENDENCIES = ReaperDependencies()


class Reaper:
    """A reaper, which reads the state and queues the removal of what is dead.

    For the guarantees, see the module docstring.

    Args:
        records: The session records.
        leases: The leases of the gateway replicas.
        locations: The session locations of the default temporary workspace.
        lease_duration_seconds: The lease duration of all replicas of the workspace.
        grace_period_seconds: The time for which a state must be observed before the reaper acts on it.
        storage_period_seconds: The time for which a listing of the locations is reused. With 0, the locations are
            listed in each pass.
        monotonic: A function that returns the current time of a monotonic clock, in seconds.
        log: The logger for events.
        dependencies: The optional dependencies.

    Attributes:
        holds: The current holds.
        ends: The queue of work on sessions, orphans and leases.
        purges: The queue of work on the trash.
        last_pass: The result of the last pass, or None if that pass could not read the complete state.
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
        self._leases = leases
        self._dependencies = dependencies
        self._grace_period_seconds = grace_period_seconds
        self._monotonic = monotonic
        self._log = log
        self.holds = Holds(log, self._report)
        self._interruptions = Interruptions(lease_duration_seconds, monotonic)
        self.snapshot_reader = SnapshotReader(
            read_records=self._read_records,
            leases=leases,
            locations=locations,
            hosts=dependencies.hosts,
            lease_duration_seconds=lease_duration_seconds,
            storage_period_seconds=storage_period_seconds,
            monotonic=monotonic,
            log=log,
            on_step=self._interruptions.note_step,
            running=dependencies.running,
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
        self.last_pass: PassResult | None = None
        self._history = History()
        self._mass_expiry = MassExpiry()
        self._announced_token = ""
        self._is_sparing = False

    def make_pass(self, planned_pause_seconds: float = 0.0) -> bool:
        """Read the complete state and queue the work that is due.

        Only one thread may call this method.

        Args:
            planned_pause_seconds: The planned time since the end of the last pass.

        Returns:
            Whether the complete state could be read.

        Raises:
            HomeMovedError: If the home of the workspace has moved to another directory, so that a new reaper is
                needed.
            HomeReplacedError: The same, if another home is at its path.
        """
        begun_seconds = self._monotonic()
        self._interruptions.note_step(planned_pause_seconds)
        try:
            snapshot = self.snapshot_reader.read()
            can_write = self._can_write()
            self._interruptions.note_step()
            if not can_write:
                self._restart(forget_silence(self._history))
            self._history = extend_history(self._history, snapshot)
            decisions = decide(self._history, snapshot, self._grace_period_seconds)
            decisions = self._select_due(decisions if can_write else only_ended(decisions), snapshot)
            if self._was_interrupted():
                self._restart(forget_silence(self._history))
                decisions = only_ended(decisions)
        except (RecordsUnavailableError, OSError) as error:
            root_error = _root_error_of(error)
            if isinstance(root_error, HOME_ERRORS):
                raise root_error from None
            self._hold(error)
            return False
        self.holds.end(RECORDS, STORAGE, ROOT)
        self._evaluate_mass_expiry(snapshot)
        if self.may_act():
            self._offer(decisions, snapshot)
        self._report_spared(decisions)
        seconds = self._monotonic() - begun_seconds
        self.last_pass = PassResult(snapshot, self._mass_expiry.held, seconds, len(decisions.spared))
        self._report(self.last_pass)
        self._interruptions.note_step()
        return True

    def due_seconds(self) -> float:
        """Return the monotonic time at which the next pass may find new work.

        Requests for a pass are not taken into account.
        """
        due = due_seconds(self._history, self._monotonic(), self._grace_period_seconds)
        return min(due, self.snapshot_reader.due_seconds(), self.ends.retry_seconds(), self.purges.retry_seconds())

    def may_act(self) -> bool:
        """Return whether this reaper may begin work."""
        return not self._stopping.is_set() and self._dependencies.may_act()

    def stop(self) -> None:
        """Stop the reaper. No new work begins, and work is interrupted where possible."""
        self._stopping.set()

    def _read_records(self) -> Sequence[StoredRecord]:
        return (self._dependencies.read_records or self._records.list)()

    def _can_write(self) -> bool:
        """Return whether a gateway could write now. If not, the reaper is on hold."""
        try:
            (self._dependencies.check_writable or self._leases.check_writable)()
        except RecordsUnavailableError as error:
            self.holds.begin(WRITES, str(error))
            return False
        self.holds.end(WRITES)
        return True

    def _was_interrupted(self) -> bool:
        """Return whether the reaper was paused, or the storage hung, since the last pass or in this one."""
        self._interruptions.note_step()
        seconds = self._interruptions.take_longest()
        if seconds:
            self._log.warning("grace_periods_restarted", seconds=round(seconds, 1))
        return seconds > 0

    def _restart(self, history: History) -> None:
        """Start all observations again, except those in the given history."""
        self._history, self._mass_expiry = history, MassExpiry()
        self.snapshot_reader.reset_lease_history()

    def _hold(self, error: RecordsUnavailableError | OSError) -> None:
        self._restart(History())
        self._interruptions.note_step()
        self._interruptions.take_longest()
        self.last_pass = None
        for queue in (self.ends, self.purges):
            queue.retain(frozenset())
        kind = RECORDS if isinstance(error, RecordsUnavailableError) else STORAGE
        self.holds.begin(kind if _root_error_of(error) is None else ROOT, str(error))

    def _select_due(self, decisions: Decisions, snapshot: Snapshot) -> Decisions:
        """Return the decisions without completed work, returned replicas and disproved orphans.

        Work is removed if it was completed after the storage was listed. Orphans are removed if the current records
        refer to them.

        Raises:
            RecordsUnavailableError: If the current records or leases cannot be read.
        """
        if decisions.forget or decisions.undo:
            decisions = confirm_gone(decisions, self.snapshot_reader.read_lost() | snapshot.ended)
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
        """Return records from the storage, at least the records of the given sessions.

        Raises:
            RecordsUnavailableError: If the records cannot be read.
        """
        if len(sessions) > _MOST_SINGLE_READS:
            return self._records.list()
        return [found for session_uuid in sessions if (found := self._records.find(session_uuid)) is not None]

    def _evaluate_mass_expiry(self, snapshot: Snapshot) -> None:
        dependencies, before = self._dependencies, self._mass_expiry
        state = evaluate_mass_expiry(before, snapshot, dependencies.mass_expiry, dependencies.confirmation())
        self._mass_expiry = state
        if not state.held:
            self.holds.end(MASS_EXPIRY)
        if not self.may_act():
            return
        if state.confirmed > before.confirmed:
            count = len(state.confirmed)
            self._log.warning("mass_expiry_confirmed", sessions=count, confirmed_with=before.token)
            self._report(MassExpiryConfirmed(before.token, count))
        if state.held:
            if state.token != self._announced_token:
                self.holds.end(MASS_EXPIRY)
            self._announced_token = state.token
            self.holds.begin(
                MASS_EXPIRY,
                f"{len(state.held)} of {state.all_sessions} sessions appear to be dead at the same time. The reaper "
                "does not end any of them. Find out the cause. If the sessions are really dead, confirm this with the "
                f"token {state.token}.",
                sessions=len(state.held),
                of_sessions=state.all_sessions,
                confirm_with=state.token,
            )

    def _report_spared(self, decisions: Decisions) -> None:
        """Log once that sessions are not ended because others are being adopted, and once that this has ended."""
        is_sparing = bool(decisions.spared)
        if is_sparing and not self._is_sparing:
            replicas = frozenset[ReplicaId]().union(*(stored.record.holders for stored in decisions.spared))
            self._log.info("adoption_awaited", sessions=len(decisions.spared), replicas=sorted(replicas))
        elif self._is_sparing and not is_sparing:
            self._log.info("adoption_ended")
        self._is_sparing = is_sparing

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
        """Yield the work and its keys. If a key occurs twice, the first work is used."""
        removals, held = self._removals, self._mass_expiry.held
        for stored in decisions.finish:
            yield _session_key(stored), partial(self._end, stored, "end_not_finished")
        for stored in decisions.requested:
            yield _session_key(stored), partial(self._end, stored, "deletion_requested")
        for stored in decisions.end:
            if stored.record.session_uuid not in held:
                yield _session_key(stored), partial(self._end, stored, "holders_lost")
        forget, undo = dict(decisions.forget), dict(decisions.undo)
        for stored in forget | undo:
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
        """Move the locations of a session to the trash.

        The remaining steps are returned. They run after the locations of all dead sessions have been moved.
        """
        succeeded, ending = self._removals.begin_end(stored)
        return succeeded if ending is None else partial(self._complete_end, stored, ending, reason)

    def _complete_end(self, stored: StoredRecord, ending: EndingSession, reason: str) -> bool:
        succeeded = self._removals.complete_end(stored, ending, reason)
        return succeeded and self._offer_purges(stored.record.session_uuid)

    def _remove_orphan(self, session_uuid: SessionUuid) -> bool:
        return self._removals.remove_orphan(session_uuid) and self._offer_purges(session_uuid)

    def _offer_purges(self, session_uuid: SessionUuid) -> bool:
        for entry in self._removals.trash_of(session_uuid):
            self._offer_purge(entry)
        return True

    def _offer_purge(self, entry: TrashEntry) -> None:
        self.purges.offer(WorkKey(entry), partial(self._removals.purge, entry))

    def _report(self, report: Report) -> None:
        for handle in self._dependencies.report_handlers:
            handle(report)

    def _new_queue(self) -> WorkQueue:
        return WorkQueue(monotonic=self._monotonic, log=self._log, may_run=self.may_act)


def _session_key(stored: StoredRecord) -> WorkKey:
    return WorkKey(stored.record.session_uuid)


def _orphan_key(session_uuid: SessionUuid) -> WorkKey:
    return WorkKey(f"orphan/{session_uuid}")


def _table_key(session_uuid: SessionUuid, table_uuid: TableUuid) -> WorkKey:
    return WorkKey(f"table/{session_uuid}/{table_uuid}")


def _root_error_of(error: BaseException) -> RootError | None:
    """Return the error itself or its cause, if one of them is a RootError."""
    return next((each for each in (error, error.__cause__) if isinstance(each, RootError)), None)
