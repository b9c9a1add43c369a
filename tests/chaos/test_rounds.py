"""Every kind of fault while clients work: a short ``python -m tests.chaos``.

The absence of the API server has a test of its own, `tests.chaos.test_api_absence`.
"""

import os

import pytest

from tests.chaos.plans import plan_all_faults
from tests.chaos.rounds import Rounds
from tests.chaos.site import Timeouts

pytestmark = pytest.mark.slow

SEED = os.environ.get("LODGE_CHAOS_SEED", "1")
ABSENCE_SECONDS = 10.0
THINK_SECONDS = 1.0
PROVED_ALONE = {"api_absent", "api_restarted"}


@pytest.mark.timeout(1200)
def test_sessions_survive_every_kind_of_fault_and_nothing_else_remains(start_site):
    rounds = Rounds(start_site(Timeouts(idle_seconds=30)), THINK_SECONDS)
    for plan in plan_all_faults(SEED, ABSENCE_SECONDS, without=PROVED_ALONE):
        print(f"Round {plan.seed}: {', '.join(fault.name for fault in plan.faults)}", flush=True)
        print(rounds.play(plan), flush=True)
    rounds.end()
