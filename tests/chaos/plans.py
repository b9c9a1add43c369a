"""Plans: which faults run together in which round, chosen by a seed."""

from collections.abc import Iterator, Sequence, Set
from random import Random

from tests.chaos.faults import FAULTS, Fault, faults_of
from tests.chaos.rounds import Plan
from tests.chaos.stores import KUBERNETES

_MOST_AT_ONCE = 3
_MOST_OF_ALL_AT_ONCE = 4
_LAST = ("backend_killed", "api_without_store", "disk_full", "reapers_killed")
"""The faults of the last round. The first one ends all sessions, and the others show little of what lives on."""


def plan_all_faults(seed: str, absence_seconds: float, without: Set[str] = frozenset()) -> Sequence[Plan]:
    """Return few rounds in which each kind of fault of a site on Kubernetes runs once.

    A client vanishes only in the first round, because its session lives until it has been idle for too long.

    Args:
        seed: The seed of the rounds.
        absence_seconds: See `Plan`.
        without: Names of faults to leave out.
    """
    random = Random(seed)  # noqa: S311 - must be repeatable, not secret
    last = [FAULTS[name] for name in _LAST if name not in without]
    names = sorted(faults_of(KUBERNETES).keys() - without - set(_LAST))
    left = [FAULTS[name] for name in random.sample(names, len(names))]
    rounds: list[Sequence[Fault]] = []
    while left:
        rivals = {fault.name: sum(bool(fault.touches & other.touches) for other in left) for fault in left}
        rounds.append(_choose_compatible(sorted(left, key=lambda fault: -rivals[fault.name]), _MOST_OF_ALL_AT_ONCE))
        left = [fault for fault in left if fault not in rounds[-1]]
    return [
        Plan(f"{seed}/{number}", chosen, absence_seconds, client_vanishes=number == 1)
        for number, chosen in enumerate([*rounds, last], start=1)
    ]


def plan_random_faults(seed: str, rounds: int, absence_seconds: float, store: str = KUBERNETES) -> Iterator[Plan]:
    """Yield rounds of one to three faults of a site with a store."""
    faults = list(faults_of(store).values())
    for number in range(1, rounds + 1):
        round_seed = f"{seed}/{number}"
        random = Random(round_seed)  # noqa: S311 - must be repeatable, not secret
        shuffled = random.sample(faults, len(faults))
        yield Plan(round_seed, _choose_compatible(shuffled, random.randint(1, _MOST_AT_ONCE)), absence_seconds)


def _choose_compatible(faults: Sequence[Fault], most: int) -> Sequence[Fault]:
    """Return the first faults that touch nothing in common."""
    chosen: list[Fault] = []
    touched: frozenset[str] = frozenset()
    for fault in faults:
        if len(chosen) < most and not fault.touches & touched:
            chosen.append(fault)
            touched |= fault.touches
    return chosen
