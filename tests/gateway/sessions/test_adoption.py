"""The choice of the replica that adopts a session (gateway.sessions.adoption)."""

import hashlib
from collections import Counter
from collections.abc import Sequence

from gateway.sessions.adoption import MOST_ADOPTERS, Adoption, is_adoptable, rank
from tests.records import a_record
from workspace.identifiers import RecordName, ReplicaId
from workspace.record_changes import mark_ending
from workspace.record_store import StoredRecord, Version

PATIENCE_SECONDS = 7.0
LOST = ReplicaId("lost")
REPLICAS = [ReplicaId(f"replica-{number}") for number in range(20)]
NAMES = [RecordName(hashlib.sha256(str(number).encode()).hexdigest()[:40]) for number in range(2000)]


def adoption_of(replica: ReplicaId) -> Adoption:
    return Adoption(replica, LOST, patience_seconds=PATIENCE_SECONDS)


def shares(living: Sequence[ReplicaId], names: Sequence[RecordName] = NAMES) -> dict[ReplicaId, set[RecordName]]:
    return {each: set(adoption_of(each).choose(names, frozenset(living), 0.0)) for each in living}


def test_guarantee_1_each_session_has_one_adopter() -> None:
    counts = Counter(name for share in shares(REPLICAS).values() for name in share)
    assert counts == dict.fromkeys(NAMES, 1)


def test_guarantee_2_sessions_are_spread_among_few_replicas() -> None:
    sizes = [len(share) for share in shares(REPLICAS).values() if share]
    assert len(sizes) == MOST_ADOPTERS
    assert max(sizes) < 1.3 * min(sizes)


def test_guarantee_2_other_replicas_wait_before_they_read_sessions() -> None:
    living = frozenset(REPLICAS)
    delays = {each: adoption_of(each).start_delay_seconds(living) for each in REPLICAS}
    adopters = {each for each, share in shares(REPLICAS).items() if share}
    assert {each for each, delay in delays.items() if delay == 0.0} == adopters
    assert min(delay for delay in delays.values() if delay) > 2 * PATIENCE_SECONDS


def test_different_replicas_adopt_the_sessions_of_different_lost_replicas() -> None:
    firsts = {rank(f"lost-{number}", REPLICAS)[0] for number in range(100)}
    assert len(firsts) > 15


def test_loss_of_a_replica_moves_only_its_share() -> None:
    before, after = shares(REPLICAS[:4]), shares(REPLICAS[:3])
    for replica in REPLICAS[:3]:
        assert before[replica] < after[replica]


def test_guarantee_3_silent_replica_is_replaced_by_the_next_in_rank() -> None:
    living = REPLICAS[:3]
    all_shares = shares(living)
    adoption, silent = adoption_of(living[0]), living[1]
    assert set(adoption.choose(NAMES, frozenset(living), 0.0)) == all_shares[living[0]]
    left = sorted(all_shares[silent])  # the third replica has adopted its whole share
    assert adoption.choose(left, frozenset(living), PATIENCE_SECONDS - 0.1) == []
    taken = set(adoption.choose(left, frozenset(living), PATIENCE_SECONDS + 0.1))
    assert taken == {name for name in left if rank(name, [living[0], living[2]])[0] == living[0]}
    assert set(adoption.choose(left, frozenset(living), 3 * PATIENCE_SECONDS)) == set(left), "the third is silent now"


def test_guarantee_3_slow_replica_keeps_its_share() -> None:
    living = frozenset(REPLICAS[:2])
    adoption, share = adoption_of(REPLICAS[0]), sorted(shares(REPLICAS[:2])[REPLICAS[1]])
    for step in range(20):
        assert adoption.choose(share[10 * step :], living, step * PATIENCE_SECONDS) == []


def test_guarantee_4_replica_never_finds_itself_silent() -> None:
    adoption, living = adoption_of(REPLICAS[0]), frozenset(REPLICAS)
    for step in range(100):
        chosen = adoption.choose(NAMES[:50], living, step * (PATIENCE_SECONDS + 1))
    assert set(chosen) == set(NAMES[:50])


def test_only_active_sessions_of_lost_replicas_are_adoptable() -> None:
    lost, alive = ReplicaId("lost"), ReplicaId("alive")
    held = a_record(holders=frozenset({lost}))

    def stored(record, *, is_deletion_requested=False):
        return StoredRecord(record, Version("1"), is_deletion_requested)

    assert is_adoptable(stored(held), {lost})
    assert is_adoptable(stored(a_record(holders=frozenset())), {lost})
    assert not is_adoptable(stored(a_record(holders=frozenset({lost, alive}))), {lost})
    assert not is_adoptable(stored(mark_ending(held)), {lost})
    assert not is_adoptable(stored(held, is_deletion_requested=True), {lost})
