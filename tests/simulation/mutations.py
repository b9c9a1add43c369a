"""Deliberate mistakes in the protocol, which the simulation must find.

A simulation that finds nothing proves nothing, unless it can find mistakes. Each mutation removes one rule from the
real code, and names the invariants that this may violate first.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any
from unittest import mock

import gateway.blocking_work.storage
import reaper.decisions
import reaper.reaper
import reaper.removals
import reaper.snapshot_reader
import workspace.record_changes
import workspace.session_end
from gateway.operations.drain import Drain
from gateway.sessions import lease_thread, record_updates
from gateway.sessions.adopter import Adopter
from gateway.sessions.adoption import Adoption
from gateway.sessions.peers import Peers
from gateway.sessions.pending_updates import PendingUpdates
from gateway.sessions.record_updates import RecordUpdates
from gateway.sessions.replica_lease import ReplicaLease
from gateway.sessions.served_sessions import ServedSessions
from gateway.tables import changes, execution
from gateway.tables.records import TableRecords
from gateway.tables.table_errors import ChangeTakenError
from gateway.tables.undo import Undo
from gateway.tables.view_sync import ViewSync
from reaper.decisions import Snapshot
from reaper.interruptions import Interruptions
from reaper.removals import Removals
from tests.simulation.api_server import ApiServer
from tests.simulation.records import ModelSessionRecords
from tests.simulation.situations import Situation, situation_of
from tests.simulation.watchers import Watchers
from workspace.identifiers import Principal, RecordName, ReplicaId
from workspace.leases import LeaseObserver
from workspace.record_changes import mark_ending, update_record
from workspace.record_store import StoredRecord, Version
from workspace.records import Answer, Phase, SessionRecord, TableState, TemporaryTable
from workspace.session_end import EndedSession, EndingSession, begin_end, complete_end

Apply = Callable[[], AbstractContextManager[Any]]


@dataclass(frozen=True, slots=True)
class Mutation:
    """A deliberate mistake.

    Attributes:
        name: A sentence that describes the mistake.
        apply: Returns a context manager in which the code has the mistake.
        invariants: The numbers of the invariants that it may violate first.
        situation: The situation of the seeds that look for it; None for all seeds.
        first: A seed that found it; the search begins there.
    """

    name: str
    apply: Apply
    invariants: frozenset[int]
    situation: Situation | None = None
    first: int = 0

    def seeds(self, seeds: Iterable[int]) -> Iterator[int]:
        """Return the seeds that look for the mistake, beginning with the first one."""
        ordered = sorted(seeds, key=lambda seed: (seed < self.first, seed))
        return (seed for seed in ordered if self.situation in {None, situation_of(seed)})

    def __str__(self) -> str:
        return self.name


@contextmanager
def _patch(*changes: tuple[Any, str, Any]) -> Iterator[None]:
    """Replace attributes within a block."""
    if not changes:
        yield
        return
    (target, name, replacement), *others = changes
    with mock.patch.object(target, name, replacement), _patch(*others):
        yield


def _expire_leases_at_once() -> AbstractContextManager[None]:
    original = LeaseObserver.__init__
    return _patch((LeaseObserver, "__init__", lambda self, lease_duration_seconds: original(self, 0.01)))


def _replace_end_steps(
    begin: Callable[..., EndingSession | None] = begin_end, complete: Callable[..., EndedSession | None] = complete_end
) -> AbstractContextManager[None]:
    modules = (workspace.session_end, reaper.removals)
    steps = (("begin_end", begin), ("complete_end", complete))
    return _patch(*((module, name, step) for module in modules for name, step in steps))


def _move_to_trash_before_mark() -> AbstractContextManager[None]:
    def begin(records: Any, locations: Any, stored: StoredRecord, *release: Any) -> EndingSession | None:
        locations.move_to_trash(stored.record.session_uuid)
        return begin_end(records, locations, stored, *release)

    return _replace_end_steps(begin)


def _delete_record_before_move() -> AbstractContextManager[None]:
    def begin(records: Any, locations: Any, stored: StoredRecord, *_: Any) -> EndingSession | None:
        ending = stored
        if stored.record.phase is Phase.ACTIVE:
            ending = records.replace(mark_ending(stored.record), stored.version)
        records.delete(ending.record.name, ending.version)
        return EndingSession(ending, tuple(locations.move_to_trash(ending.record.session_uuid)))

    def complete(_: Any, ending: EndingSession) -> EndedSession | None:
        return EndedSession(ending.stored.record, ending.locations)

    return _replace_end_steps(begin, complete)


def _report_each_attempt_to_end() -> AbstractContextManager[None]:
    def begin(records: Any, locations: Any, stored: StoredRecord, *release: Any) -> EndingSession | None:
        paths = tuple(locations.paths(stored.record.session_uuid))
        ending = begin_end(records, locations, stored, *release)
        return EndingSession(stored if ending is None else ending.stored, paths)

    def complete(records: Any, ending: EndingSession) -> EndedSession | None:
        return complete_end(records, ending) or EndedSession(ending.stored.record, ending.locations)

    return _replace_end_steps(begin, complete)


def _mark_despite_changes() -> AbstractContextManager[None]:
    def mark(records: Any, stored: StoredRecord) -> StoredRecord:
        now: StoredRecord = records.read(stored.record.name)
        is_ending = now.record.phase is Phase.ENDING
        return now if is_ending else records.replace(mark_ending(now.record), now.version)

    return _patch((workspace.session_end, "_mark_ending", mark))


def _list_records_first() -> AbstractContextManager[None]:
    original = reaper.snapshot_reader.SnapshotReader.read

    def read(self: Any) -> Snapshot:
        records = self._read_records()
        original_read, self._read_records = self._read_records, lambda: records
        try:
            return original(self)
        finally:
            self._read_records = original_read

    return _patch((reaper.snapshot_reader.SnapshotReader, "read", read), _skip_grace_period())


def _skip_grace_period() -> tuple[Any, str, Any]:
    def since(previous: object, present: Any, seen_seconds: float) -> Mapping[Any, float]:
        return dict.fromkeys(present, float("-inf"))

    return reaper.decisions, "_since", since


def _overwrite_conflicts() -> AbstractContextManager[None]:
    original = ModelSessionRecords.replace

    def replace(self: ModelSessionRecords, record: SessionRecord, version: Version) -> StoredRecord:
        return original(self, record, self.read(record.name).version)

    return _patch((ModelSessionRecords, "replace", replace))


def _rejoin_without_write() -> AbstractContextManager[None]:
    def update(records: Any, name: Any, change: Any, **_: Any) -> StoredRecord:
        return update_record(records, name, change)

    return _patch((gateway.blocking_work.storage, "update_record", update), (record_updates, "update_record", update))


def _ignore_lapses() -> AbstractContextManager[None]:
    original = ReplicaLease.renew_now

    def renew_now(self: ReplicaLease) -> None:
        original(self)
        self.epoch = 0

    return _patch((ReplicaLease, "renew_now", renew_now))


def _skip_lock() -> AbstractContextManager[None]:
    class Lock:
        async def __aenter__(self) -> None: ...

        async def __aexit__(self, *_: object) -> None: ...

    return _patch((ServedSessions, "lock", lambda self, name: Lock()))


def _assume_last_holder() -> AbstractContextManager[None]:
    return _patch((RecordUpdates, "_is_last_holder", lambda self, record: True))


def _ignore_running_writes() -> AbstractContextManager[None]:
    def unnamed(self: Snapshot) -> Iterator[Any]:
        for stored in self.active():
            ready = [table.parts for table in stored.record.tables if table.state is TableState.READY]
            found = self.tables.get(stored.record.session_uuid, frozenset())
            for table in found - frozenset[Any]().union(*ready):
                yield stored.record.session_uuid, table

    return _patch((Snapshot, "unnamed_tables", unnamed))


def _treat_doubted_as_gone() -> AbstractContextManager[None]:
    original = Snapshot.__post_init__

    def post_init(self: Snapshot) -> None:
        original(self)
        object.__setattr__(self, "gone", self.gone | self.doubted)

    return _patch((Snapshot, "__post_init__", post_init))


def _skip_view() -> AbstractContextManager[None]:
    async def synchronise(self: Any, execution: Any, record: Any, table: Any, change: Any) -> None:
        """Do nothing: the view keeps its old state."""

    return _patch((ViewSync, "synchronise", synchronise))


def _skip_orphan_confirmation() -> AbstractContextManager[None]:
    return _patch((reaper.reaper, "confirm_orphans", lambda decisions, records: decisions))


def _skip_fencing() -> AbstractContextManager[None]:
    return _patch(
        (ReplicaLease, "require_joined", lambda self, session: None),
        (ReplicaLease, "require_valid", lambda self: None),
    )


def _skip_loss_confirmation() -> AbstractContextManager[None]:
    async def confirm(self: Adopter) -> None:
        """Do nothing: replicas count as lost that were lost before the sessions were listed."""

    return _patch((Adopter, "_confirm_losses", confirm))


def _adopt_from_living() -> AbstractContextManager[None]:
    async def observe(self: Peers) -> None:
        await original(self)
        self.lost |= self.living - {self._replica}

    original = Peers.observe
    return _patch((Peers, "observe", observe))


def _undo_at_stop() -> AbstractContextManager[None]:
    return _patch(
        (Drain, "handing_over", lambda self, end: nullcontext()), (Drain, "hands_over", lambda self, error: False)
    )


def _ignore_takeovers() -> AbstractContextManager[None]:
    original = Undo.undo

    async def undo(self: Undo, *arguments: Any) -> Answer | None:
        try:
            return await original(self, *arguments)
        except ChangeTakenError:
            return None

    return _patch((Undo, "undo", undo))


def _choose_all() -> AbstractContextManager[None]:
    return _patch((Adoption, "choose", lambda self, waiting, living, now_seconds: list(waiting)))


def _never_find_silent() -> AbstractContextManager[None]:
    original = Adoption.choose

    def choose(self: Adoption, *arguments: Any) -> Sequence[RecordName]:
        self._shares = {}
        return original(self, *arguments)

    return _patch((Adoption, "choose", choose))


def _count_only_created_tables() -> AbstractContextManager[None]:
    original = TableRecords.of_principal

    async def of_principal(self: TableRecords, principal: Principal) -> list[SessionRecord]:
        records = await original(self, principal)
        return [replace(record, tables=tuple(filter(_is_ready, record.tables))) for record in records]

    return _patch((TableRecords, "of_principal", of_principal))


def _is_ready(table: TemporaryTable) -> bool:
    return table.state is TableState.READY


def _revive_stopped_leases() -> AbstractContextManager[None]:
    def renew(self: ApiServer, replica: ReplicaId) -> bool:
        self.lease_marks[replica] = self._next_revision()
        return True

    return _patch((ApiServer, "renew", renew))


def _begin_again() -> AbstractContextManager[None]:
    return _patch((execution, "begin_once", lambda change, begin, **_: begin))


def _judge_without_writes() -> AbstractContextManager[None]:
    return _patch((reaper.reaper.Reaper, "_can_write", lambda self: True))


def _count_interruptions() -> AbstractContextManager[None]:
    return _patch((Interruptions, "take_longest", lambda self: 0.0))


def _keep_grace_periods() -> AbstractContextManager[None]:
    return _patch((reaper.reaper.Reaper, "_restart", lambda self, history: None))


MUTATIONS: Sequence[Mutation] = (
    Mutation("a lease expires as soon as it stops changing", _expire_leases_at_once, frozenset({1, 12})),
    Mutation("a location moves to the trash before its record is marked", _move_to_trash_before_mark, frozenset({1})),
    Mutation("a record is deleted before its location moves to the trash", _delete_record_before_move, frozenset({5})),
    Mutation("a record is marked despite a concurrent change", _mark_despite_changes, frozenset({1}), first=88),
    Mutation("records are listed before locations", _list_records_first, frozenset({1}), first=83),
    Mutation("the last write of a record wins", _overwrite_conflicts, frozenset({1, 2, 4, 7, 12}), first=30),
    Mutation("a gateway does not check its lease", _skip_fencing, frozenset({1, 6, 12}), first=16),
    Mutation("a gateway does not notice that its lease lapsed", _ignore_lapses, frozenset({1, 2, 12}), first=183),
    Mutation(
        "a gateway renews its lease although its event loop stalls",
        lambda: _patch((lease_thread, "UNRESPONSIVE_LEASES", 1000.0)),
        frozenset({8}),
        first=77,
    ),
    Mutation(
        "a gateway rejoins a session without a write",
        _rejoin_without_write,
        frozenset({1, 12}),
        Situation.RETURNS,
        first=1135,
    ),
    Mutation("a session is opened while it is closed", _skip_lock, frozenset({1, 2}), Situation.QUOTA, first=4355),
    Mutation("an idle session is ended although others serve it", _assume_last_holder, frozenset({1}), first=11),
    Mutation(
        "a failed record update is not retried",
        lambda: _patch((PendingUpdates, "keep_on_failure", lambda self, update: nullcontext())),
        frozenset({2}),
        first=58,
    ),
    Mutation("a doubted gateway counts as dead", _treat_doubted_as_gone, frozenset({1, 12}), first=179),
    Mutation("a directory of a running write counts as an orphan", _ignore_running_writes, frozenset({1}), first=17),
    Mutation("the view of a table is not updated", _skip_view, frozenset({9}), first=3),
    Mutation("an orphan is removed without a fresh read", _skip_orphan_confirmation, frozenset({1}), first=88),
    Mutation(
        "an ending session may be joined",
        lambda: _patch((workspace.record_changes, "_require_active", lambda record: record)),
        frozenset({4}),
        first=153,
    ),
    Mutation("each attempt to end a session reports the end", _report_each_attempt_to_end, frozenset({4}), first=90),
    Mutation(
        "orphans are not removed",
        lambda: _patch((Removals, "remove_orphan", lambda self, session_uuid: True)),
        frozenset({2, 3}),
        first=8,
    ),
    Mutation(
        "a statement rewrites rows that others have replaced",
        lambda: _patch((changes, "_parts_around", lambda table, write, _: ((), table.parts[len(write.replaced) :]))),
        frozenset({21}),
    ),
    Mutation(
        "a write continues although its table is replaced",
        lambda: _patch((changes, "_overtaken", lambda writes, _: writes)),
        frozenset({22}),
    ),
    Mutation("a statement begins although it has begun before", _begin_again, frozenset({10}), first=91),
    Mutation("a gateway that stops undoes its statements", _undo_at_stop, frozenset({11}), Situation.STOPS, first=161),
    Mutation("a session of a living gateway is adopted", _adopt_from_living, frozenset({12, 13}), first=1),
    Mutation(
        "a loss is not confirmed before an adoption",
        _skip_loss_confirmation,
        frozenset({12}),
        Situation.RETURNS,
        first=1967,
    ),
    Mutation("every gateway adopts every session", _choose_all, frozenset({13})),
    Mutation("no gateway replaces a silent one", _never_find_silent, frozenset({14}), Situation.SILENCE, first=341),
    Mutation("a late renewal revives a stopped lease", _revive_stopped_leases, frozenset({15}), first=2),
    Mutation(
        "a quota ignores the tables that are being created",
        _count_only_created_tables,
        frozenset({16}),
        Situation.QUOTA,
    ),
    Mutation(
        "a reaper judges although it cannot write",
        _judge_without_writes,
        frozenset({17}),
        Situation.READ_ONLY,
        first=276,
    ),
    Mutation(
        "a gateway is replaced although its process lives",
        lambda: _patch((Watchers, "on_silence", Watchers.replace)),
        frozenset({1, 12}),
        Situation.WATCHED,
    ),
    Mutation(
        "grace periods go on while nobody can write",
        _keep_grace_periods,
        frozenset({17}),
        Situation.READ_ONLY,
        first=340,
    ),
    Mutation(
        "a pause of the reaper counts as grace period",
        _count_interruptions,
        frozenset({20}),
        Situation.HANGS,
        first=492,
    ),
    Mutation(
        "the trash is not emptied",
        lambda: _patch((Removals, "purge", lambda self, entry: True)),
        frozenset({2}),
        first=8,
    ),
    Mutation(
        "a statement fails although another gateway took it over",
        _ignore_takeovers,
        frozenset({19}),
        first=167,
    ),
)
