"""Leader election on clocks that only the test moves; see the guarantees of :mod:`reaper.kubernetes.candidacy`."""

import itertools
from collections.abc import Iterable

from reaper.kubernetes.candidacy import LEADING_SHARE, WRITING_SHARE, Candidacy, LeaseState

DURATION_SECONDS = 6.0


def a_candidate(identity: str = "me") -> Candidacy:
    return Candidacy(identity, DURATION_SECONDS)


def a_lease(holder: str, mark: str = "1", duration_seconds: float = DURATION_SECONDS) -> LeaseState:
    return LeaseState(holder, mark, duration_seconds)


def test_guarantee_1_lease_without_holder_is_taken_at_once() -> None:
    candidate = a_candidate()
    assert candidate.may_take(0), "there is no lease"
    candidate.observe(a_lease("other"), 0)
    assert not candidate.may_take(0)
    candidate.observe(a_lease("", "2"), 0)
    assert candidate.may_take(0)


def test_guarantee_1_unchanged_lease_is_taken_after_its_duration() -> None:
    candidate = a_candidate()
    candidate.observe(a_lease("other", "1"), 100)
    candidate.observe(a_lease("other", "1"), 105.9)
    assert not candidate.may_take(105.9)
    assert candidate.may_take(106)
    candidate.observe(a_lease("other", "2"), 106)
    assert not candidate.may_take(111.9)


def test_guarantee_1_longer_duration_counts() -> None:
    candidate = a_candidate()
    candidate.observe(a_lease("other", duration_seconds=60), 0)
    assert not candidate.may_take(59)
    assert candidate.may_take(60)
    candidate.observe(a_lease("another", duration_seconds=1), 100)
    assert not candidate.may_take(101)


def test_guarantee_2_leadership_lasts_a_share_of_the_duration() -> None:
    candidate = a_candidate()
    assert not candidate.leads(0)
    candidate.record_renewal(10)
    assert candidate.leads(10 + DURATION_SECONDS * LEADING_SHARE - 0.1)
    assert not candidate.leads(10 + DURATION_SECONDS * LEADING_SHARE)
    candidate.record_renewal(20)
    candidate.resign()
    assert not candidate.leads(20)


def test_guarantee_3_other_changes_are_no_sign_of_life() -> None:
    candidate = a_candidate()
    candidate.observe(a_lease("other", "1", duration_seconds=6), 0)
    candidate.observe(a_lease("other", "1", duration_seconds=5), 3)
    assert candidate.may_take(6)


TURNS = tuple(itertools.product("ab", (0.0, 2.0, 3.9, 6.0), (0.0, 1.0)))
"""The next candidate that reads the lease, its delay, and the duration of each of its requests."""


def test_two_candidates_never_lead_at_the_same_time() -> None:
    for turns in itertools.product(TURNS, repeat=4):
        leaders = most_leaders(turns)
        assert leaders <= 1, turns


def most_leaders(turns: Iterable[tuple[str, float, float]]) -> int:
    """Return the most leaders at any time; each has its own clock, and a request takes effect half way."""
    clocks = {"a": 0.0, "b": 1e6}
    candidates = {name: a_candidate(name) for name in clocks}
    lease, now, most = a_lease(""), 0.0, 0
    for number, (name, wait_seconds, request_seconds) in enumerate(turns):
        candidate, clock = candidates[name], clocks[name]
        now += wait_seconds
        read = lease
        now += request_seconds
        candidate.observe(read, clock + now)
        begun = now
        if candidate.may_take(clock + begun):
            lease = a_lease(name, str(number))
            now += request_seconds
            candidate.observe(lease, clock + now)
            candidate.record_renewal(clock + begun)
        most = max(most, sum(one.leads(clocks[of] + now) for of, one in candidates.items()))
    return most


def test_guarantee_4_lease_that_changes_is_evidence_of_writes() -> None:
    candidate = a_candidate()
    assert candidate.take_evidence_of_writes(50), "the time begins with the first question"
    for second in range(51, 60, 2):
        candidate.observe(a_lease("other", str(second)), second)
        assert candidate.take_evidence_of_writes(second + 1)


def test_guarantee_4_pause_between_two_questions_is_noticed_once() -> None:
    candidate = a_candidate()
    candidate.observe(a_lease("other", "1"), 100)
    assert candidate.take_evidence_of_writes(100)
    candidate.observe(a_lease("other", "2"), 100 + DURATION_SECONDS * WRITING_SHARE + 0.1)
    candidate.observe(a_lease("other", "3"), 104)
    assert not candidate.take_evidence_of_writes(104)
    assert candidate.take_evidence_of_writes(105)


def test_guarantee_4_lease_that_does_not_change_is_no_evidence() -> None:
    candidate = a_candidate()
    candidate.observe(a_lease("other", "1"), 100)
    candidate.observe(a_lease("other", "1"), 102)
    assert candidate.take_evidence_of_writes(100 + DURATION_SECONDS * WRITING_SHARE)
    assert not candidate.take_evidence_of_writes(100 + DURATION_SECONDS * WRITING_SHARE + 0.1)
    assert not a_silent_candidate().take_evidence_of_writes(200)


def a_silent_candidate() -> Candidacy:
    """Return a candidate that could never read the lease, and has asked long ago."""
    candidate = a_candidate()
    candidate.take_evidence_of_writes(0)
    return candidate
