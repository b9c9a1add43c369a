"""Deliberate mistakes in the protocol, which the simulation must find.

A simulation that finds nothing proves nothing, unless it can find mistakes. Each mutation removes one rule from the
real code, and names the invariants that this may violate first.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any
from unittest import mock

import gateway.storage
import reaper.decisions
import reaper.reaper
import reaper.removals
import reaper.snapshot_reader
import workspace.record_changes
import workspace.session_end
from gateway.sessions import record_updates
from gateway.sessions.pending_updates import PendingUpdates
from gateway.sessions.record_updates import RecordUpdates
from gateway.sessions.registry import Sessions
from gateway.sessions.replica_lease import ReplicaLease
from gateway.tables.view_sync import ViewSync
from reaper.decisions import Snapshot
from reaper.removals import Removals
from tests.simulation.records import ModelSessionRecords
from workspace.leases import LeaseObserver
from workspace.record_changes import mark_ending, update_record
from workspace.record_store import StoredRecord, Version
from workspace.records import Phase, SessionRecord, TableState
from workspace.session_end import EndedSession, EndingSession, begin_end, complete_end

Apply = Callable[[], AbstractContextManager[Any]]


@dataclass(frozen=True, slots=True)
class Mutation:
    """A deliberate mistake.

    Attributes:
        name: A sentence that describes the mistake.
        apply: Returns a context manager in which the code has the mistake.
        invariants: The numbers of the invariants that it may violate first.
    """

    name: str
    apply: Apply
    invariants: frozenset[int]

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


def _a_lease_is_lost_at_once() -> AbstractContextManager[None]:
    original = LeaseObserver.__init__
    return _patch((LeaseObserver, "__init__", lambda self, lease_duration_seconds: original(self, 0.01)))


def _ended_by(
    begin: Callable[..., EndingSession | None] = begin_end, complete: Callable[..., EndedSession | None] = complete_end
) -> AbstractContextManager[None]:
    modules = (workspace.session_end, reaper.removals)
    steps = (("begin_end", begin), ("complete_end", complete))
    return _patch(*((module, name, step) for module in modules for name, step in steps))


def _set_aside_before_marked() -> AbstractContextManager[None]:
    def begin(records: Any, locations: Any, stored: StoredRecord, *release: Any) -> EndingSession | None:
        locations.move_to_trash(stored.record.session_uuid)
        return begin_end(records, locations, stored, *release)

    return _ended_by(begin)


def _deleted_before_set_aside() -> AbstractContextManager[None]:
    def begin(records: Any, locations: Any, stored: StoredRecord, *_: Any) -> EndingSession | None:
        ending = stored
        if stored.record.phase is Phase.ACTIVE:
            ending = records.replace(mark_ending(stored.record), stored.version)
        records.delete(ending.record.name, ending.version)
        return EndingSession(ending, tuple(locations.move_to_trash(ending.record.session_uuid)))

    def complete(_: Any, ending: EndingSession) -> EndedSession | None:
        return EndedSession(ending.stored.record, ending.locations)

    return _ended_by(begin, complete)


def _told_by_all_who_tried() -> AbstractContextManager[None]:
    def begin(records: Any, locations: Any, stored: StoredRecord, *release: Any) -> EndingSession | None:
        there = tuple(locations.paths(stored.record.session_uuid))
        ending = begin_end(records, locations, stored, *release)
        return EndingSession(stored if ending is None else ending.stored, there)

    def complete(records: Any, ending: EndingSession) -> EndedSession | None:
        return complete_end(records, ending) or EndedSession(ending.stored.record, ending.locations)

    return _ended_by(begin, complete)


def _marked_whatever_changed() -> AbstractContextManager[None]:
    def marked(records: Any, stored: StoredRecord) -> StoredRecord:
        now: StoredRecord = records.read(stored.record.name)
        is_ending = now.record.phase is Phase.ENDING
        return now if is_ending else records.replace(mark_ending(now.record), now.version)

    return _patch((workspace.session_end, "_mark_ending", marked))


def _records_listed_first_and_one_snapshot() -> AbstractContextManager[None]:
    original = reaper.snapshot_reader.SnapshotReader.read

    def read(self: Any) -> Snapshot:
        records = self._read_records()
        original_read, self._read_records = self._read_records, lambda: records
        try:
            return original(self)
        finally:
            self._read_records = original_read

    return _patch((reaper.snapshot_reader.SnapshotReader, "read", read), _one_snapshot())


def _one_snapshot() -> tuple[Any, str, Any]:
    def since(previous: object, present: Any, seen_seconds: float) -> Mapping[Any, float]:
        return dict.fromkeys(present, float("-inf"))

    return reaper.decisions, "_since", since


def _last_writer_wins() -> AbstractContextManager[None]:
    original = ModelSessionRecords.replace

    def replace(self: ModelSessionRecords, record: SessionRecord, version: Version) -> StoredRecord:
        return original(self, record, self.read(record.name).version)

    return _patch((ModelSessionRecords, "replace", replace))


def _rejoined_without_writing() -> AbstractContextManager[None]:
    def without(records: Any, name: Any, change: Any, **_: Any) -> StoredRecord:
        return update_record(records, name, change)

    return _patch((gateway.storage, "update_record", without), (record_updates, "update_record", without))


def _lapse_unnoticed() -> AbstractContextManager[None]:
    original = ReplicaLease.renew

    async def renew(self: ReplicaLease) -> None:
        await original(self)
        self.epoch = 0

    return _patch((ReplicaLease, "renew", renew))


def _never_locked() -> AbstractContextManager[None]:
    @contextmanager
    def nothing() -> Iterator[None]:
        yield

    class Lock:
        async def __aenter__(self) -> None: ...

        async def __aexit__(self, *_: object) -> None: ...

    return _patch((Sessions, "_lock", lambda self, name: Lock()))


def _idle_for_all() -> AbstractContextManager[None]:
    return _patch((RecordUpdates, "_is_last_holder", lambda self, record: True))


def _only_parts_count() -> AbstractContextManager[None]:
    def unnamed(self: Snapshot) -> Iterator[Any]:
        for stored in self.active():
            ready = [table.parts for table in stored.record.tables if table.state is TableState.READY]
            found = self.tables.get(stored.record.session_uuid, frozenset())
            for table in found - frozenset[Any]().union(*ready):
                yield stored.record.session_uuid, table

    return _patch((Snapshot, "unnamed_tables", unnamed))


def _doubted_is_gone() -> AbstractContextManager[None]:
    original = Snapshot.__post_init__

    def post_init(self: Snapshot) -> None:
        original(self)
        object.__setattr__(self, "gone", self.gone | self.doubted)

    return _patch((Snapshot, "__post_init__", post_init))


def _view_not_made() -> AbstractContextManager[None]:
    async def synchronise(self: Any, execution: Any, record: Any, table: Any, change: Any) -> None:
        """Do nothing: the view keeps its old state."""

    return _patch((ViewSync, "synchronise", synchronise))


def _confirmed_by_the_cache() -> AbstractContextManager[None]:
    return _patch((reaper.reaper, "confirm_orphans", lambda decisions, records: decisions))


def _unfenced() -> AbstractContextManager[None]:
    return _patch(
        (ReplicaLease, "require_joined", lambda self, session: None),
        (ReplicaLease, "require_valid", lambda self: None),
    )


MUTATIONS: Sequence[Mutation] = (
    Mutation("a lease is lost as soon as it stands still", _a_lease_is_lost_at_once, frozenset({1})),
    Mutation("a location is set aside before its session is marked", _set_aside_before_marked, frozenset({1})),
    Mutation("a record is deleted before its location is set aside", _deleted_before_set_aside, frozenset({5})),
    Mutation("a session is marked whatever changed since", _marked_whatever_changed, frozenset({1})),
    Mutation("records are listed before locations", _records_listed_first_and_one_snapshot, frozenset({1})),
    Mutation("the last writer of a record wins", _last_writer_wins, frozenset({1, 2, 4, 7})),
    Mutation("a gateway does not check its lease", _unfenced, frozenset({1, 6})),
    Mutation("a lapse of the lease goes unnoticed", _lapse_unnoticed, frozenset({1, 2})),
    Mutation("a session is joined anew without a write", _rejoined_without_writing, frozenset({1})),
    Mutation("a session is opened while it is left", _never_locked, frozenset({1, 2})),
    Mutation("an idle session is ended although others hold it", _idle_for_all, frozenset({1})),
    Mutation(
        "what could not be written is forgotten",
        lambda: _patch((PendingUpdates, "keep_on_failure", lambda self, update: nullcontext())),
        frozenset({2}),
    ),
    Mutation("a doubted gateway is taken for dead", _doubted_is_gone, frozenset({1})),
    Mutation("what is being written is an orphan", _only_parts_count, frozenset({1})),
    Mutation("the view of a table is left as it is", _view_not_made, frozenset({9})),
    Mutation("an orphan is one by the cache alone", _confirmed_by_the_cache, frozenset({1})),
    Mutation(
        "an ending session may be joined",
        lambda: _patch((workspace.record_changes, "_require_active", lambda record: record)),
        frozenset({4}),
    ),
    Mutation("everyone who tried tells of the end", _told_by_all_who_tried, frozenset({4})),
    Mutation(
        "orphans are left",
        lambda: _patch((Removals, "remove_orphan", lambda self, session_uuid: True)),
        frozenset({2, 3}),
    ),
    Mutation("the trash is left", lambda: _patch((Removals, "purge", lambda self, entry: True)), frozenset({2})),
)
