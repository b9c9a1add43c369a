"""The contract of Leases for every implementation (guarantees: workspace.leases)."""

from collections.abc import Callable

import pytest

from workspace.identifiers import ReplicaId
from workspace.leases import Leases

Opener = Callable[[], Leases]
A, B = ReplicaId("gateway-a.1"), ReplicaId("gateway-b")


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
