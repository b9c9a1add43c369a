"""What goes wrong in a simulation, and how often; chosen anew for each seed."""

import enum
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_DUEL_SHARE = 0.25


class Fault(enum.Enum):
    """What may happen at a call. ``BEFORE`` is before it has taken effect, ``AFTER`` is after that."""

    CRASH_BEFORE = enum.auto()
    CRASH_AFTER = enum.auto()
    PAUSE_BEFORE = enum.auto()
    PAUSE_AFTER = enum.auto()
    STALL_BEFORE = enum.auto()
    STALL_AFTER = enum.auto()
    REFUSED = enum.auto()
    ANSWER_LOST = enum.auto()
    CUT_OFF = enum.auto()
    OUTAGE = enum.auto()
    OTHER_CRASHES = enum.auto()
    OTHER_PAUSES = enum.auto()


@dataclass(frozen=True, slots=True)
class TargetedFault:
    """One kind of fault that lies in wait for one kind of call.

    Attributes:
        by: How the names of the processes begin that it waits for.
        what: The call.
        fault: What happens.
        rate: At what share of these calls.
    """

    process_prefix: str
    operation: str
    fault: Fault
    rate: float


_LONG = (Fault.PAUSE_BEFORE, Fault.PAUSE_AFTER, Fault.STALL_BEFORE, Fault.STALL_AFTER)
_RATES = (0.05, 0.2, 0.5)


@dataclass(frozen=True, slots=True)
class FaultPlan:
    """How much goes wrong.

    Attributes:
        rate: Of all calls, the share at which something happens.
        faults: What may happen.
        ambushes: What else may happen, and where.
        longest_seconds: How long something may last.
        least_share: And how long at least, as a share of that, if it is not short.
        stale_seconds: How old what is read from a cache may be.
    """

    rate: float
    faults: Sequence[Fault]
    targeted: Mapping[str, TargetedFault]
    longest_seconds: float
    shortest_share: float
    longest_watch_delay_seconds: float


NO_FAULTS = FaultPlan(0.0, (), {}, 0.0, 0.0, 0.0)

CALLS = (
    "create record",
    "delete lease",
    "delete record",
    "list leases",
    "list locations",
    "list records",
    "list trash",
    "look into location",
    "make location",
    "measure table",
    "purge",
    "read record",
    "remove table",
    "renew lease",
    "set location aside",
    "take finalizer off",
    "update record",
    "watch",
)
"""What is called most or matters most."""


def choose_fault_plan(random: random.Random, longest_seconds: float) -> FaultPlan:
    """Some seeds have few kinds of faults and many of them, others all kinds: what one hides, another shows.

    What needs two rare faults at two places in turn would hardly ever come of evenly spread ones, so in most seeds some
    calls have their own.
    """
    kinds = list(Fault)
    some = random.sample(kinds, random.choice([2, 4, 8, len(kinds)]))
    calls = random.sample(CALLS, random.choice([0, 0, 1, 2, 3]))
    targeted = [TargetedFault("", operation, random.choice(kinds), random.choice(_RATES)) for operation in calls]
    is_duel = random.random() < _DUEL_SHARE
    if is_duel:  # a gateway that was given up comes back while a reaper is about to act
        operation = random.choice(("update record", "update record", "set location aside", "remove table"))
        targeted.append(TargetedFault("reaper", operation, random.choice(_LONG), 0.5))
        targeted.append(TargetedFault("gateway", "renew lease", random.choice(_LONG), 0.2))
    return FaultPlan(
        rate=random.choice([0.003, 0.01, 0.02, 0.05]),
        faults=tuple(some),
        targeted={targeted_fault.operation: targeted_fault for targeted_fault in targeted},
        longest_seconds=longest_seconds,
        shortest_share=0.5 if is_duel else 0.0,
        longest_watch_delay_seconds=random.choice([0.0, 0.0, 1.0, longest_seconds]),
    )
