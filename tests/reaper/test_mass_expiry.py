"""Mass expiry: too many sessions look dead at once; see the guarantees of :mod:`reaper.mass_expiry`."""

import uuid
from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from reaper.decisions import Snapshot
from reaper.mass_expiry import MassExpiry, MassExpiryRule, evaluate_mass_expiry, token_of
from tests.records import a_record
from workspace.identifiers import ReplicaId, SessionUuid
from workspace.record_store import StoredRecord, Version

DEAD, ALIVE = ReplicaId("dead"), ReplicaId("alive")
RULE = MassExpiryRule(share=0.5, minimum_sessions=3, grace_period_seconds=10.0)


def a_session(number: int, holder: ReplicaId, *, requested: bool = False) -> StoredRecord:
    return StoredRecord(a_record(number, holders=frozenset({holder})), Version("1"), is_deletion_requested=requested)


def name_of(number: int) -> SessionUuid:
    return SessionUuid(str(uuid.UUID(int=number)))


def a_snapshot(
    dead: Iterable[int], alive: Iterable[int], *, at_seconds: float, requested: Iterable[int] = ()
) -> Snapshot:
    records = [a_session(number, DEAD) for number in dead]
    records += [a_session(number, ALIVE) for number in alive]
    records += [a_session(number, DEAD, requested=True) for number in requested]
    return Snapshot(
        locations=frozenset(),
        records=records,
        leased=frozenset(),
        lost=frozenset({DEAD}),
        trash=(),
        begun_seconds=at_seconds,
        ended_seconds=at_seconds,
    )


def state_after(*snapshots: Snapshot, confirmation: str | None = None, rule: MassExpiryRule = RULE) -> MassExpiry:
    state = MassExpiry()
    for snapshot in snapshots:
        state = evaluate_mass_expiry(state, snapshot, rule, confirmation)
    return state


def names(numbers: Iterable[int]) -> frozenset[SessionUuid]:
    return frozenset(map(name_of, numbers))


def test_guarantee_1_more_than_share_and_minimum_are_held() -> None:
    assert state_after(a_snapshot(range(4), range(10, 13), at_seconds=0)).held == names(range(4))
    assert not state_after(a_snapshot(range(4), range(10, 14), at_seconds=0)).held, "half is not more than half"
    assert not state_after(a_snapshot(range(2), [], at_seconds=0)).held, "two are fewer than the minimum"
    assert state_after(a_snapshot(range(3), [], at_seconds=0)).all_sessions == 3


def test_guarantee_1_share_of_one_never_holds() -> None:
    never = MassExpiryRule(share=1.0)
    assert not state_after(a_snapshot(range(1000), [], at_seconds=0), rule=never).held


def test_guarantee_1_ends_resume_after_grace_period_with_fewer() -> None:
    many, few = a_snapshot(range(4), [], at_seconds=0), (range(1), range(10, 13))
    assert state_after(many, a_snapshot(*few, at_seconds=9)).held
    assert not state_after(many, a_snapshot(*few, at_seconds=10)).held
    again = a_snapshot(range(4), [], at_seconds=9)
    assert state_after(many, again, a_snapshot(*few, at_seconds=18)).held


def test_guarantee_2_token_confirms_only_the_held_sessions() -> None:
    four, five = a_snapshot(range(4), [], at_seconds=0), a_snapshot(range(5), [], at_seconds=1)
    token = state_after(four).token
    assert state_after(four, confirmation=token) == MassExpiry(confirmed=names(range(4)))
    worse = state_after(four, five)
    assert worse.token != token
    assert evaluate_mass_expiry(worse, five, RULE, token).held == names(range(5)), "the warning named fewer sessions"
    assert not evaluate_mass_expiry(worse, five, RULE, worse.token).held


def test_guarantee_2_token_stays_while_sessions_become_fewer() -> None:
    before = state_after(a_snapshot(range(6), [], at_seconds=0))
    fewer = a_snapshot(range(4), [], at_seconds=1)
    after = evaluate_mass_expiry(before, fewer, RULE, None)
    assert after.token == before.token
    assert evaluate_mass_expiry(after, fewer, RULE, before.token).confirmed == names(range(4))


def test_guarantee_2_confirmed_sessions_do_not_count_for_later_ones() -> None:
    token = token_of(names(range(6)))
    state = state_after(a_snapshot(range(6), range(10, 13), at_seconds=0), confirmation=token)
    state = evaluate_mass_expiry(state, a_snapshot(range(2), range(10, 13), at_seconds=1), RULE, token)
    assert not state.held
    state = evaluate_mass_expiry(state, a_snapshot([*range(2), 10, 11, 12], [], at_seconds=2), RULE, token)
    assert state.held == names((10, 11, 12))
    assert state.confirmed == names(range(2))


def test_guarantee_2_live_session_loses_its_confirmation() -> None:
    token = token_of(names(range(4)))
    state = state_after(a_snapshot(range(4), [], at_seconds=0), confirmation=token)
    state = evaluate_mass_expiry(state, a_snapshot([], range(4), at_seconds=1), RULE, None)
    assert evaluate_mass_expiry(state, a_snapshot(range(4), [], at_seconds=2), RULE, None).held == names(range(4))


def test_guarantee_3_next_reaper_has_the_same_token() -> None:
    snapshot = a_snapshot(range(4), [], at_seconds=0)
    assert state_after(snapshot).token == state_after(a_snapshot([], range(4), at_seconds=5), snapshot).token


def test_guarantee_4_requested_deletions_neither_count_nor_wait() -> None:
    snapshot = a_snapshot(range(2), range(10, 11), at_seconds=0, requested=range(20, 30))
    assert not state_after(snapshot).held
    snapshot = a_snapshot(range(20), range(40, 41), at_seconds=0, requested=range(50, 60))
    assert state_after(snapshot).held == names(range(20))


@given(st.lists(st.tuples(st.sets(st.integers(0, 9)), st.booleans()), max_size=20))
def test_exceeding_sessions_are_held_unless_confirmed(history: list[tuple[set[int], bool]]) -> None:
    state, everyone = MassExpiry(), set(range(10))
    for second, (dead, confirms) in enumerate(history):
        snapshot = a_snapshot(dead, everyone - dead, at_seconds=second)
        known = state.token if confirms else None
        state = evaluate_mass_expiry(state, snapshot, RULE, known or None)
        unconfirmed = names(dead) - state.confirmed
        if RULE.is_exceeded(len(unconfirmed), 10 - len(state.confirmed)):
            assert unconfirmed <= state.held
        assert state.confirmed <= names(dead)
        assert bool(state.token) == bool(state.held)
