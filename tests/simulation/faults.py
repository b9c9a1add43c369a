"""Kinds of faults, and the plan of a seed: which happen, where, and how often."""

import enum
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tests.simulation.situations import Situation

_DUEL_SHARE = 0.25


class Fault(enum.Enum):
    """A fault before or after a call takes effect.

    ``STALL_…`` delays a single call. ``LOOP_STALLS`` stops the event loop of a gateway, while its threads continue.
    ``READ_ONLY`` refuses the writes of all processes, as a full or read-only storage does, and happens alone. ``HANG``
    lets all calls of all processes to one service wait, as a network file system without a server does.
    """

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
    LOOP_STALLS = enum.auto()
    READ_ONLY = enum.auto()
    HANG = enum.auto()


@dataclass(frozen=True, slots=True)
class TargetedFault:
    """A fault that often happens at one kind of call.

    Attributes:
        process_prefix: The beginning of the names of the affected processes.
        operation: The call.
        fault: The fault.
        rate: The share of these calls at which it happens.
    """

    process_prefix: str
    operation: str
    fault: Fault
    rate: float


_LONG = (Fault.PAUSE_BEFORE, Fault.PAUSE_AFTER, Fault.STALL_BEFORE, Fault.STALL_AFTER)
_OF_PROCESSES = (Fault.CRASH_BEFORE, Fault.CRASH_AFTER, Fault.PAUSE_BEFORE, Fault.PAUSE_AFTER, Fault.LOOP_STALLS)
_RATES = (0.05, 0.2, 0.5)


@dataclass(frozen=True, slots=True)
class FaultPlan:
    """Which faults happen, and how often.

    Attributes:
        rate: The share of all calls at which a fault happens.
        faults: The kinds of faults.
        targeted: Further faults at single kinds of calls, by the call.
        longest_seconds: The longest duration of a fault.
        shortest_share: The shortest duration of a fault that is not brief, as a share of the longest.
        longest_watch_delay_seconds: The longest delay of the events of a watch.
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
    "read location",
    "create location",
    "measure table",
    "purge",
    "read record",
    "remove table",
    "renew lease",
    "move location to trash",
    "remove finalizer",
    "update record",
    "watch",
)
"""The most frequent and the most important calls. The order is part of each seed's history."""


def choose_fault_plan(random: random.Random, longest_seconds: float, situation: Situation) -> FaultPlan:
    """Choose the faults of a seed.

    Some seeds have many faults of few kinds, others have all kinds, because one kind can hide another. Evenly spread
    faults hardly ever hit two places in sequence. Most seeds therefore also have faults that target single calls.
    """
    kinds = [fault for fault in Fault if fault not in {Fault.READ_ONLY, Fault.HANG}]
    some = random.sample(kinds, random.choice([2, 4, 8, len(kinds)]))
    calls = random.sample(CALLS, random.choice([0, 0, 1, 2, 3]))
    targeted = [TargetedFault("", operation, random.choice(kinds), random.choice(_RATES)) for operation in calls]
    is_duel = random.random() < _DUEL_SHARE
    if is_duel:  # a gateway that was declared dead returns while a reaper is about to act
        operation = random.choice(("update record", "update record", "move location to trash", "remove table"))
        targeted.append(TargetedFault("reaper", operation, random.choice(_LONG), 0.5))
        targeted.append(TargetedFault("gateway", "renew lease", random.choice(_LONG), 0.2))
    plan = FaultPlan(
        rate=random.choice([0.003, 0.01, 0.02, 0.05]),
        faults=tuple(some),
        targeted={target.operation: target for target in targeted},
        longest_seconds=longest_seconds,
        shortest_share=0.5 if is_duel else 0.0,
        longest_watch_delay_seconds=random.choice([0.0, 0.0, 1.0, longest_seconds]),
    )
    match situation:
        case Situation.STOPS | Situation.QUOTA:
            plan = replace(plan, rate=0.003, targeted={})
        case Situation.SILENCE:
            silent = TargetedFault("gateway-1", "list records", Fault.REFUSED, 1.0)
            plan = replace(plan, rate=0.001, targeted={silent.operation: silent})
        case Situation.READ_ONLY:
            plan = FaultPlan(random.choice((0.002, 0.01)), (Fault.READ_ONLY,), {}, 2 * longest_seconds, 0.2, 0.0)
        case Situation.HANGS:
            kinds = [Fault.HANG, Fault.OTHER_CRASHES]
            plan = FaultPlan(random.choice((0.002, 0.005)), kinds, {}, 2 * longest_seconds, 0.5, 0.0)
        case Situation.WATCHED:
            plan = FaultPlan(random.choice((0.005, 0.02)), _OF_PROCESSES, {}, longest_seconds, 0.2, 0.0)
        case Situation.RETURNS:
            plan = _choose_returns(random, plan)
    return plan


def _choose_returns(random: random.Random, plan: FaultPlan) -> FaultPlan:
    """Let gateways lose their leases for a moment, while the lists and changes of others take as long."""
    renewal = TargetedFault("gateway", "renew lease", random.choice(_LONG), 0.2)
    listing = TargetedFault("gateway", random.choice(("list records", "update record")), Fault.STALL_BEFORE, 0.3)
    return replace(
        plan,
        rate=0.003,
        targeted={target.operation: target for target in (renewal, listing)},
        longest_seconds=plan.longest_seconds / 2,
        shortest_share=0.6,
        longest_watch_delay_seconds=random.choice((0.0, 1.0)),
    )
