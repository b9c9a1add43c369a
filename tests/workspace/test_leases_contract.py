"""The contract of Leases for every implementation (guarantees: workspace.leases)."""

import re
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from workspace.identifiers import ReplicaId
from workspace.leases import STOPPED, Leases, LeaseStoppedError

Opener = Callable[[], Leases]
A, B = ReplicaId("gateway-a.1"), ReplicaId("gateway-b")
DEADLINE_SECONDS = 120


def test_renewed_lease_is_listed_by_all(open_leases: Opener) -> None:
    assert not open_leases().list()
    open_leases().renew(A)
    open_leases().renew(B)
    assert open_leases().list().keys() == {A, B}


def test_renewal_changes_its_own_mark_only(open_leases: Opener) -> None:
    leases = open_leases()
    leases.renew(B)
    marks = []
    for _ in range(20):
        leases.renew(A)
        marks.append(open_leases().list()[A])
    assert len(set(marks)) == len(marks)
    before = leases.list()[B]
    leases.renew(A)
    assert leases.list()[B] == before


def test_deleted_lease_can_be_deleted_and_renewed_again(open_leases: Opener) -> None:
    leases = open_leases()
    leases.renew(A)
    leases.delete(A)
    leases.delete(A)
    assert not leases.list()
    leases.renew(A)
    assert leases.list().keys() == {A}


@pytest.mark.parametrize("replica", ["", ".", "..", "../a", "a/b", ".a", "a-", "A", "a_b", "a\n", "ä", "a" * 201])
def test_only_replica_ids_are_accepted(open_leases: Opener, replica: str) -> None:
    with pytest.raises(ValueError, match="replica id"):
        open_leases().renew(ReplicaId(replica))
    with pytest.raises(ValueError, match="replica id"):
        open_leases().delete(ReplicaId(replica))
    with pytest.raises(ValueError, match="replica id"):
        open_leases().stop(ReplicaId(replica))


def test_stopped_lease_is_listed_as_stopped_until_it_is_deleted(open_leases: Opener) -> None:
    leases = open_leases()
    leases.renew(A)
    leases.renew(B)
    before = leases.list()[B]
    leases.stop(A)
    leases.stop(A)
    assert open_leases().list() == {A: STOPPED, B: before}
    open_leases().delete(A)
    assert leases.list() == {B: before}


def test_lease_can_be_stopped_before_its_first_renewal(open_leases: Opener) -> None:
    open_leases().stop(A)
    assert open_leases().list() == {A: STOPPED}


def test_guarantee_3_renewal_does_not_revive_a_stopped_lease(open_leases: Opener) -> None:
    leases = open_leases()
    leases.renew(A)
    open_leases().stop(A)
    for opened in (leases, open_leases()):
        with pytest.raises(LeaseStoppedError, match=re.escape("[gateway-a.1] has been stopped")):
            opened.renew(A)
        assert opened.list() == {A: STOPPED}
    leases.delete(A)
    leases.renew(A)
    assert leases.list()[A] != STOPPED


def test_guarantee_3_stop_wins_against_concurrent_renewals(open_leases: Opener) -> None:
    replicas = [ReplicaId(f"gateway-{number}") for number in range(8)]

    def renew(replica: ReplicaId) -> int:
        renewals = 0
        with suppress(LeaseStoppedError):
            leases = open_leases()
            while True:
                leases.renew(replica)
                renewals += 1
                begun.set()
        return renewals

    begun = threading.Event()
    with ThreadPoolExecutor(2 * len(replicas)) as threads:
        renewals = [threads.submit(renew, replica) for replica in replicas * 2]
        assert begun.wait(DEADLINE_SECONDS)
        for replica in replicas:
            open_leases().stop(replica)
        assert sum(each.result(DEADLINE_SECONDS) for each in renewals)
    assert open_leases().list() == dict.fromkeys(replicas, STOPPED)
