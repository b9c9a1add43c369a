"""The contract of SessionRecords for every implementation (guarantees: workspace.record_store)."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import pytest

from tests.fixture_types import InProcesses, Outage
from tests.records import a_record
from workspace import record_store
from workspace.identifiers import ClientSessionId, Principal, RecordName, ReplicaId, SessionUuid, TableUuid, record_name
from workspace.record_changes import add_holder, mark_ending, remove_holders, update_record
from workspace.records import Phase, Refusal, SessionRecord, SuspectedRequest, TableState, TemporaryTable

Opener = Callable[[], record_store.SessionRecords]

DEADLINE_SECONDS = 120
RECORDS = 2_500
A, B, C = ReplicaId("gateway-a"), ReplicaId("gateway-b"), ReplicaId("gateway-c")
ABSENT = record_name(Principal("nobody"), ClientSessionId("none"))


def counted(record: SessionRecord) -> SessionRecord:
    return replace(record, created_at=str(int(record.created_at) + 1))


def test_created_record_reads_back_unchanged(open_records: Opener) -> None:
    table = TemporaryTable(
        "Größe; 'x'\n", TableUuid("00000000-0000-4000-8000-000000000001"), TableState.READY, "parquet"
    )
    record = a_record(principal=Principal("ada\0\u2028"), holders=frozenset({ReplicaId("a")}), tables=(table,))
    suspect = SuspectedRequest("operation", "digest", 2, Refusal.OPERATION, "loss")
    record = replace(record, suspects=(suspect,), relations=("operation",))
    created = open_records().create(record)
    assert created.record == record
    assert open_records().read(record.name) == created
    assert list(open_records().list()) == [created]


def test_replace_stores_new_values_with_a_new_version(records: record_store.SessionRecords) -> None:
    first = records.create(a_record())
    second = records.replace(add_holder(first.record, ReplicaId("a")), first.version)
    assert second.version != first.version
    assert records.read(first.record.name) == second
    assert second.record.holders == {"a"}


def test_name_can_be_created_once_until_it_is_deleted(records: record_store.SessionRecords) -> None:
    first = records.create(a_record())
    with pytest.raises(record_store.RecordExistsError):
        records.create(a_record())
    records.delete(first.record.name, first.version)
    again = records.create(a_record())
    assert records.read(first.record.name) == again
    assert again.version != first.version


def test_missing_record_is_not_found(records: record_store.SessionRecords) -> None:
    record = a_record()
    version = records.create(a_record(client_session_id=ClientSessionId("other"))).version
    with pytest.raises(record_store.RecordNotFoundError):
        records.read(ABSENT)
    with pytest.raises(record_store.RecordNotFoundError):
        records.replace(record, version)
    with pytest.raises(record_store.RecordNotFoundError):
        records.delete(ABSENT, version)


def test_guarantee_2_old_version_can_neither_replace_nor_delete(records: record_store.SessionRecords) -> None:
    first = records.create(a_record())
    second = records.replace(counted(first.record), first.version)
    with pytest.raises(record_store.RecordConflictError):
        records.replace(first.record, first.version)
    with pytest.raises(record_store.RecordConflictError):
        records.delete(first.record.name, first.version)
    assert records.read(first.record.name) == second


@pytest.mark.parametrize("changes", [0, 1, 5])
def test_guarantee_2_version_of_a_deleted_record_is_invalid_for_its_successor(
    records: record_store.SessionRecords, changes: int
) -> None:
    first = records.create(a_record())
    records.delete(first.record.name, first.version)
    second = records.create(a_record())
    for _ in range(changes):
        second = records.replace(counted(second.record), second.version)
    with pytest.raises(record_store.RecordConflictError):
        records.replace(first.record, first.version)
    with pytest.raises(record_store.RecordConflictError):
        records.delete(first.record.name, first.version)
    assert records.read(first.record.name) == second


@pytest.mark.parametrize("version", ["", "1", "../../x", "0000000001", "0000000001.zz"])
def test_guarantee_2_unknown_version_is_a_conflict(records: record_store.SessionRecords, version: str) -> None:
    stored = records.create(a_record())
    with pytest.raises(record_store.RecordConflictError):
        records.replace(stored.record, record_store.Version(version))
    with pytest.raises(record_store.RecordConflictError):
        records.delete(stored.record.name, record_store.Version(version))


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "a/b", "A" * 40, "a" * 39, "a" * 39 + "/", "a" * 40 + "\n"])
def test_only_valid_record_names_are_accepted(records: record_store.SessionRecords, name: str) -> None:
    with pytest.raises(ValueError, match="session record name"):
        records.read(RecordName(name))
    with pytest.raises(ValueError, match="session record name"):
        records.delete(RecordName(name), record_store.Version("1"))


def test_record_that_cannot_be_decoded_is_not_stored(records: record_store.SessionRecords) -> None:
    for bad in (a_record(session_uuid="../escape"), a_record(principal=Principal("half a pair: \ud800"))):
        with pytest.raises(ValueError, match=r"."):
            records.create(bad)
    assert not records.list()


def test_list_contains_every_record_and_no_deleted_one(records: record_store.SessionRecords) -> None:
    stored = [records.create(a_record(client_session_id=ClientSessionId(str(n)))) for n in range(5)]
    records.delete(stored[2].record.name, stored[2].version)
    ending = records.replace(replace(stored[3].record, phase=Phase.ENDING), stored[3].version)
    expected = {s.record.name: s for s in (stored[0], stored[1], ending, stored[4])}
    assert {s.record.name: s for s in records.list()} == expected


def test_guarantee_1_one_of_many_concurrent_creations_succeeds(open_records: Opener, in_processes: InProcesses) -> None:
    for round_number in range(5):
        rivals = [a_record(client_session_id=ClientSessionId(str(round_number))) for _ in range(6)]
        results = in_processes([partial(open_records().create, rival) for rival in rivals])
        winners = [result for result in results if isinstance(result, record_store.StoredRecord)]
        assert len(winners) == 1
        assert sum(str(result).startswith("RecordExistsError") for result in results) == len(rivals) - 1
        assert open_records().read(rivals[0].name) == winners[0]


@pytest.mark.slow
@pytest.mark.parametrize("operation", ["replace", "delete"])
def test_guarantee_2_one_of_many_concurrent_changes_succeeds(
    open_records: Opener, in_processes: InProcesses, operation: str
) -> None:
    for round_number in range(5):
        stored = open_records().create(a_record(client_session_id=ClientSessionId(str(round_number))))

        def rival(stored: record_store.StoredRecord = stored) -> str:
            if operation == "replace":
                open_records().replace(counted(stored.record), stored.version)
            else:
                open_records().delete(stored.record.name, stored.version)
            return "won"

        results = in_processes([rival] * 6)
        assert results.count("won") == 1
        losses = [result for result in results if result != "won"]
        assert all(loss.startswith(("RecordConflictError", "RecordNotFoundError")) for loss in losses), losses


def test_guarantee_2_concurrent_increments_are_not_lost(open_records: Opener, in_processes: InProcesses) -> None:
    name = open_records().create(a_record()).record.name

    def increment() -> None:
        for _ in range(20):
            update_record(open_records(), name, counted)

    assert in_processes([increment] * 5) == [None] * 5
    assert open_records().read(name).record.created_at == "100"


def test_guarantee_3_readers_see_complete_records_during_changes(
    open_records: Opener, in_processes: InProcesses
) -> None:
    tables = tuple(
        TemporaryTable(f"t{n}", TableUuid(f"00000000-0000-4000-8000-{n:012}"), TableState.READY, "parquet" * 20)
        for n in range(100)
    )
    changing = a_record(tables=tables)
    passing = a_record(client_session_id=ClientSessionId("passing"))
    open_records().create(changing)

    def change() -> None:
        records = open_records()
        for _ in range(40):
            update_record(records, changing.name, counted)
            stored = records.create(passing)
            records.delete(passing.name, stored.version)

    def look() -> list[int]:
        records, seen = open_records(), [0]
        deadline_seconds = time.monotonic() + DEADLINE_SECONDS
        while seen[-1] < 40 and time.monotonic() < deadline_seconds:
            listed = {stored.record.name: stored.record for stored in records.list()}
            assert listed.keys() <= {changing.name, passing.name}
            assert listed[changing.name].tables == tables
            seen.append(int(records.read(changing.name).record.created_at))
        return seen

    changed, *looks = in_processes([change, look, look])
    assert changed is None
    for seen in looks:
        assert isinstance(seen, list), seen
        assert seen[-1] == 40
        assert seen == sorted(seen), "a later read found an older version"


def test_record_is_found_by_its_session_location(records: record_store.SessionRecords) -> None:
    first = records.create(a_record(client_session_id=ClientSessionId("1")))
    second = records.create(a_record(client_session_id=ClientSessionId("2")))
    assert records.find(first.record.session_uuid) == first
    records.delete(first.record.name, first.version)
    assert records.find(first.record.session_uuid) is None
    assert records.find(second.record.session_uuid) == second
    assert records.find(SessionUuid("no-uuid,and=more")) is None


def test_guarantee_6_records_of_a_principal_are_listed(open_records: Opener) -> None:
    records = open_records()
    principals = ("ada", "adam", "ad", "", "a,b=c\\d", "spec.phase!=x", "Größe \u2028 \0 %2C+&", "x" * 1024)
    stored = {
        name: [records.create(_session_of(Principal(name), number, holders=())) for number in range(2)]
        for name in principals
    }
    for name in principals:
        for opened in (records, open_records()):
            assert _by_name(opened.list_of_principal(Principal(name))) == _by_name(stored[name])
    assert not records.list_of_principal(Principal("nobody"))


def test_guarantee_6_list_of_principal_returns_the_current_state(open_records: Opener) -> None:
    records, other = open_records(), open_records()
    ada = Principal("ada")
    assert not records.list_of_principal(ada)
    for _ in range(5):
        first = other.create(_session_of(ada, 1, holders=()))
        assert list(records.list_of_principal(ada)) == [first]
        first = other.replace(counted(first.record), first.version)
        assert list(records.list_of_principal(ada)) == [first]
        second = other.create(_session_of(ada, 2, holders=()))
        assert _by_name(records.list_of_principal(ada)) == _by_name([first, second])
        for stored in (first, second):
            other.delete(stored.record.name, stored.version)
        assert not records.list_of_principal(ada)


def test_guarantee_6_records_with_a_holder_are_listed(open_records: Opener) -> None:
    records, other = open_records(), open_records()
    own, both, foreign, left = (
        other.create(_session_of(Principal("ada"), number, holders=holders))
        for number, holders in enumerate([(A,), (A, B), (B,), ()])
    )
    assert _by_name(records.list_held(A)) == _by_name([own, both])
    assert _by_name(records.list_held(B)) == _by_name([both, foreign])
    assert not records.list_held(ReplicaId("several"))
    assert not records.list_held(ReplicaId("none"))
    left = other.replace(replace(left.record, holders=frozenset({A})), left.version)
    own = other.replace(replace(own.record, holders=frozenset()), own.version)
    both = other.replace(replace(both.record, holders=frozenset({B})), both.version)
    foreign = other.replace(replace(foreign.record, holders=frozenset({A, B, C})), foreign.version)
    assert _by_name(records.list_held(A)) == _by_name([left, foreign])
    assert _by_name(records.list_held(B)) == _by_name([both, foreign])
    assert list(records.list_held(C)) == [foreign]


@pytest.mark.parametrize(
    "replica", ["several", "none", "a" * 63, "a" * 64, "b" * 200, "a.b-c", "gateway-0-" + "a" * 54]
)
def test_guarantee_6_replica_may_have_any_valid_id(open_records: Opener, replica: str) -> None:
    records = open_records()
    stored = records.create(_session_of(Principal("ada"), 1, holders=(ReplicaId(replica),)))
    records.create(_session_of(Principal("ada"), 2, holders=(ReplicaId("a" * 65),)))
    records.create(_session_of(Principal("ada"), 3, holders=()))
    records.create(_session_of(Principal("ada"), 4, holders=(A, B)))
    assert list(records.list_held(ReplicaId(replica))) == [stored]
    with watching(open_records(), ReplicaId(replica)) as seen:
        seen.until(lambda: seen.known is not None)
        assert (seen.known or {}).get(stored.record.name) == stored
        assert len(seen.known or {}) == 3


def test_threads_of_many_replicas_join_and_leave_one_session(open_records: Opener) -> None:
    records = open_records()
    name = records.create(a_record()).record.name
    replicas = [ReplicaId(f"gateway-{number}") for number in range(12)]

    def claim(replica: ReplicaId) -> None:
        update_record(records, name, partial(add_holder, replica=replica))

    def release(replica: ReplicaId) -> None:
        update_record(records, name, partial(remove_holders, replicas={replica}))

    with ThreadPoolExecutor(len(replicas)) as threads:
        list(threads.map(claim, replicas))
        assert records.read(name).record.holders == set(replicas)
        list(threads.map(release, replicas))
    assert not records.read(name).record.holders


def test_guarantee_2_one_of_adoption_and_reaping_wins(open_records: Opener) -> None:
    records = open_records()
    with ThreadPoolExecutor(8) as threads:
        for round_number in range(5):
            orphan = records.create(a_record(client_session_id=ClientSessionId(str(round_number))))
            outcomes = [add_holder(orphan.record, ReplicaId(f"gateway-{number}")) for number in range(4)]
            outcomes += [mark_ending(orphan.record)] * 4
            results = list(threads.map(partial(_outcome_of_replacing, records, orphan.version), outcomes))
            winners = [result for result in results if isinstance(result, record_store.StoredRecord)]
            assert len(winners) == 1, results
            assert records.read(orphan.record.name) == winners[0]
            names, versions = [orphan.record.name] * 8, [winners[0].version] * 8
            deletions = list(threads.map(partial(_outcome_of_deleting, records), names, versions))
            assert deletions.count(None) == 1, deletions
    assert not records.list()


def test_guarantee_4_watch_starts_with_all_records(records: record_store.SessionRecords) -> None:
    stored = records.create(a_record())
    with watching(records) as seen:
        seen.until(lambda: seen.events)
        assert seen.events[0] == record_store.RecordsListed((stored,))


def test_guarantee_4_watch_reports_the_last_state_after_each_change(records: record_store.SessionRecords) -> None:
    with watching(records) as seen:
        seen.until(lambda: seen.known == {})
        first = records.create(a_record(client_session_id=ClientSessionId("1")))
        second = records.create(a_record(client_session_id=ClientSessionId("2")))
        seen.until(lambda: seen.known == {first.record.name: first, second.record.name: second})
        for _ in range(5):
            first = records.replace(counted(first.record), first.version)
        records.delete(second.record.name, second.version)
        seen.until(lambda: seen.known == {first.record.name: first})
        again = records.create(second.record)
        seen.until(lambda: seen.known == {first.record.name: first, again.record.name: again})


def test_guarantee_7_watch_for_a_replica_reports_records_that_concern_it(open_records: Opener) -> None:
    records = open_records()
    own, both, foreign, left = (
        records.create(_session_of(Principal("ada"), number, holders=holders))
        for number, holders in enumerate([(A,), (A, B), (B,), ()])
    )
    with watching(open_records(), A) as seen:
        seen.until(lambda: seen.events)
        assert isinstance(seen.events[0], record_store.RecordsListed)
        assert _by_name(seen.events[0].records) == _by_name([own, both, left])
        foreign = records.replace(counted(foreign.record), foreign.version)
        own = records.replace(counted(own.record), own.version)
        seen.until(lambda: seen.known == _by_name([own, both, left]))
        foreign = records.replace(replace(foreign.record, holders=frozenset()), foreign.version)
        left = records.replace(replace(left.record, holders=frozenset({B})), left.version)
        seen.until(lambda: seen.known == _by_name([own, both, foreign]))
        assert record_store.RecordGone(left.record.name) in seen.events
        records.delete(both.record.name, both.version)
        created = records.create(_session_of(Principal("ada"), 5, holders=(B, C)))
        seen.until(lambda: seen.known == _by_name([own, foreign, created]))
        records.delete(left.record.name, left.version)
        last = records.create(_session_of(Principal("ada"), 6, holders=(A,)))
        seen.until(lambda: seen.known == _by_name([own, foreign, created, last]))
    holders = [event.stored.record.holders for event in seen.events if isinstance(event, record_store.RecordChanged)]
    assert {B} not in holders, "no record of another replica is reported"


def test_guarantees_4_5_and_7_operations_fail_in_an_outage_and_watches_list_again(
    open_records: Opener, outage: Outage
) -> None:
    """Use one outage for three guarantees, because a restart of an API server is expensive."""
    records = open_records()
    own = records.create(_session_of(Principal("ada"), 1, holders=(A,)))
    taken = records.create(_session_of(Principal("ada"), 2, holders=(A,)))
    foreign = records.create(_session_of(Principal("ada"), 3, holders=(B,)))
    before = _by_name([own, taken, foreign])
    questions: Sequence[Callable[[], object]] = (
        records.list,
        partial(records.find, own.record.session_uuid),
        partial(records.list_of_principal, own.record.principal),
        partial(records.list_held, A),
        partial(records.read, own.record.name),
        partial(records.create, a_record(client_session_id=ClientSessionId("other"))),
        partial(records.replace, own.record, own.version),
        partial(records.delete, own.record.name, own.version),
    )
    with watching(open_records()) as of_all, watching(open_records(), A) as of_replica:
        of_all.until(lambda: of_all.known == before)
        of_replica.until(lambda: of_replica.known == _by_name([own, taken]))
        with outage(), ThreadPoolExecutor(len(questions)) as threads:
            for answer in [threads.submit(question) for question in questions]:
                with pytest.raises(record_store.RecordsUnavailableError, match=r"cannot be used now"):
                    answer.result()
            of_all.until(lambda: isinstance(of_all.events[-1], record_store.RecordsUnreachable))
            of_replica.until(lambda: isinstance(of_replica.events[-1], record_store.RecordsUnreachable))
            unreachable = of_all.events[-1]
            assert isinstance(unreachable, record_store.RecordsUnreachable)
            assert unreachable.reason
        assert _by_name(records.list()) == before
        taken = records.replace(replace(taken.record, holders=frozenset({B})), taken.version)
        foreign = records.replace(replace(foreign.record, holders=frozenset({A})), foreign.version)
        of_all.until(lambda: of_all.known == _by_name([own, taken, foreign]))
        of_replica.until(lambda: of_replica.known == _by_name([own, foreign]))
        assert sum(isinstance(event, record_store.RecordsListed) for event in of_all.events) > 1


def test_stopped_watch_ends(records: record_store.SessionRecords) -> None:
    with watching(records) as seen:
        seen.until(lambda: seen.known == {})
        seen.stop.set()
        seen.until(lambda: seen.has_ended)


@pytest.mark.slow
def test_thousands_of_records_are_listed_watched_and_found(open_records: Opener) -> None:
    records = open_records()
    made = [a_record(client_session_id=ClientSessionId(str(number))) for number in range(RECORDS)]
    with ThreadPoolExecutor(16) as threads:
        stored = {record.record.name: record for record in threads.map(records.create, made)}
    assert {record.record.name: record for record in records.list()} == stored
    with watching(records) as seen:
        seen.until(lambda: seen.known == stored)
    assert records.find(made[RECORDS // 2].session_uuid) == stored[made[RECORDS // 2].name]


class Watched:
    """The events of a watch so far, and the state that follows from them."""

    def __init__(self, records: record_store.SessionRecords, replica: ReplicaId | None = None) -> None:
        self.events: list[record_store.RecordsEvent] = []
        self.known: dict[RecordName, record_store.StoredRecord] | None = None
        self.has_ended = False
        self.stop = threading.Event()
        self._thread = threading.Thread(target=self._follow, args=(records, replica), daemon=True)
        self._thread.start()

    def until(self, condition: Callable[[], object]) -> None:
        deadline_seconds = time.monotonic() + DEADLINE_SECONDS
        while not condition():
            assert time.monotonic() < deadline_seconds, f"what was told: {self.events[-3:]}"
            time.sleep(0.01)

    def _follow(self, records: record_store.SessionRecords, replica: ReplicaId | None) -> None:
        for event in records.watch(self.stop, replica):
            match event:
                case record_store.RecordsListed(listed):
                    self.known = {stored.record.name: stored for stored in listed}
                case record_store.RecordChanged(stored):
                    self.known = {**(self.known or {}), stored.record.name: stored}
                case record_store.RecordGone(name):
                    self.known = {known: stored for known, stored in (self.known or {}).items() if known != name}
            self.events.append(event)
        self.has_ended = True


@contextmanager
def watching(records: record_store.SessionRecords, replica: ReplicaId | None = None) -> Iterator[Watched]:
    seen = Watched(records, replica)
    try:
        yield seen
    finally:
        seen.stop.set()


def _session_of(principal: Principal, number: int, holders: Sequence[ReplicaId]) -> SessionRecord:
    return a_record(principal=principal, client_session_id=ClientSessionId(str(number)), holders=frozenset(holders))


def _by_name(records: Sequence[record_store.StoredRecord]) -> dict[RecordName, record_store.StoredRecord]:
    return {stored.record.name: stored for stored in records}


def _outcome_of_replacing(
    records: record_store.SessionRecords, version: record_store.Version, record: SessionRecord
) -> object:
    try:
        return records.replace(record, version)
    except record_store.RecordError as error:
        return error


def _outcome_of_deleting(
    records: record_store.SessionRecords, name: RecordName, version: record_store.Version
) -> object:
    try:
        return records.delete(name, version)
    except (record_store.RecordConflictError, record_store.RecordNotFoundError) as error:
        return error
