"""What goes wrong in a simulation, and how often; chosen anew for each seed."""

import enum
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_DUELS = 0.25


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
class Ambush:
    """One kind of fault that lies in wait for one kind of call.

    Attributes:
        by: How the names of the processes begin that it waits for.
        what: The call.
        fault: What happens.
        rate: At what share of these calls.
    """

    by: str
    what: str
    fault: Fault
    rate: float


_LONG = (Fault.PAUSE_BEFORE, Fault.PAUSE_AFTER, Fault.STALL_BEFORE, Fault.STALL_AFTER)
_RATES = (0.05, 0.2, 0.5)


@dataclass(frozen=True, slots=True)
class Weather:
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
    ambushes: Mapping[str, Ambush]
    longest_seconds: float
    least_share: float
    stale_seconds: float


CALM = Weather(0.0, (), {}, 0.0, 0.0, 0.0)

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


def chosen_weather(random: random.Random, longest_seconds: float) -> Weather:
    """Some seeds have few kinds of faults and many of them, others all kinds: what one hides, another shows.

    What needs two rare faults at two places in turn would hardly ever come of evenly spread ones, so in most seeds some
    calls have their own.
    """
    kinds = list(Fault)
    some = random.sample(kinds, random.choice([2, 4, 8, len(kinds)]))
    calls = random.sample(CALLS, random.choice([0, 0, 1, 2, 3]))
    ambushes = [Ambush("", what, random.choice(kinds), random.choice(_RATES)) for what in calls]
    is_duel = random.random() < _DUELS
    if is_duel:  # a gateway that was given up comes back while a reaper is about to act
        what = random.choice(("update record", "update record", "set location aside", "remove table"))
        ambushes.append(Ambush("reaper", what, random.choice(_LONG), 0.5))
        ambushes.append(Ambush("gateway", "renew lease", random.choice(_LONG), 0.2))
    return Weather(
        rate=random.choice([0.003, 0.01, 0.02, 0.05]),
        faults=tuple(some),
        ambushes={ambush.what: ambush for ambush in ambushes},
        longest_seconds=longest_seconds,
        least_share=0.5 if is_duel else 0.0,
        stale_seconds=random.choice([0.0, 0.0, 1.0, longest_seconds]),
    )
