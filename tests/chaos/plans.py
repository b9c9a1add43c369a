"""Plans: which faults run together in which round, chosen by a seed."""

from collections.abc import Iterator, Sequence
from random import Random

from tests.chaos.faults import FAULTS, Fault
from tests.chaos.rounds import Plan

_MOST_AT_ONCE = 3


def plan_all_faults(seed: str, absence_seconds: float) -> Sequence[Plan]:
    """Return rounds in which each kind of fault runs once.

    Faults that end all sessions come last.
    """
    random = Random(seed)  # noqa: S311 - must be repeatable, not secret
    left = random.sample(sorted(FAULTS), len(FAULTS))
    left.sort(key=lambda name: "backend" in FAULTS[name].touches)
    plans = []
    while left:
        chosen = _choose_compatible([FAULTS[name] for name in left], _MOST_AT_ONCE)
        left = [name for name in left if FAULTS[name] not in chosen]
        plans.append(Plan(f"{seed}/{len(plans) + 1}", chosen, absence_seconds))
    return plans


def plan_random_faults(seed: str, rounds: int, absence_seconds: float) -> Iterator[Plan]:
    """Yield rounds of one to three faults."""
    for number in range(1, rounds + 1):
        round_seed = f"{seed}/{number}"
        random = Random(round_seed)  # noqa: S311 - must be repeatable, not secret
        shuffled = random.sample(list(FAULTS.values()), len(FAULTS))
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
