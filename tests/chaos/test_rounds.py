"""Every kind of fault, several at once, while clients work: a short form of ``python -m tests.chaos``."""

import os

import pytest

from tests.chaos.plans import all_kinds
from tests.chaos.rounds import Rounds
from tests.chaos.site import Times

SEED = os.environ.get("LODGE_CHAOS_SEED", "1")
ABSENCE_SECONDS = 8.0


@pytest.mark.timeout(600)
def test_after_every_kind_of_fault_live_sessions_are_whole_and_nothing_else_is_there(start_site):
    rounds = Rounds(start_site(Times(idle_seconds=15)))
    for plan in all_kinds(SEED, ABSENCE_SECONDS):
        print(f"Round {plan.seed}: {', '.join(fault.name for fault in plan.faults)}", flush=True)
        print(rounds.play(plan), flush=True)
    rounds.end()
