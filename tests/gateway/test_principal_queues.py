"""Numbers in comments are the guarantees of ``gateway.blocking_work.principal_queues``."""

from gateway.blocking_work.principal_queues import PrincipalQueues


def filled() -> PrincipalQueues[int]:
    queues = PrincipalQueues[int]()
    for principal, item in [("ann", 1), ("ann", 2), ("bob", 3), (None, 4)]:
        queues.add(principal, item)
    return queues


def test_principals_take_turns() -> None:
    queues, served = filled(), []
    while queues:
        principal, item = next(queues.first())
        queues.serve(principal)
        served.append(item)
    assert served == [1, 3, 4, 2]  # 1


def test_removed_items_are_not_served() -> None:
    queues = filled()
    queues.remove("ann", 1)
    queues.remove("bob", 3)
    queues.remove("bob", 3)  # it does not wait anymore
    assert list(queues.first()) == [("ann", 2), (None, 4)]
    assert [len(queues), queues.length_of("ann"), queues.length_of("bob")] == [2, 1, 0]
