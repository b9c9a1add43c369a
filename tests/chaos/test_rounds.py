"""Faults while clients work: a short ``python -m tests.chaos``."""

import os

import pytest

from tests.chaos.plans import plan_all_faults
from tests.chaos.rounds import Rounds
from tests.chaos.site import Timeouts

pytestmark = pytest.mark.slow

SEED = os.environ.get("LODGE_CHAOS_SEED", "1")
ABSENCE_SECONDS = 10.0
CLIENTS = 3
THINK_SECONDS = 1.0
PROVED_ALONE = {
    "api_absent": "test_single_faults",
    "api_read_only": "reaper/kubernetes/test_leadership",
    "api_restarted": "test_single_faults",
    "backend_paused": "the fault backend_hung, which is as short in this test",
    "gateway_lock_held": "gateway/sessions/test_watched_gateways",
    "gateway_paused": "test_single_faults",
    "gateway_process_killed": "gateway/sessions/test_watched_gateways",
    "gateway_process_stuck": "gateway/sessions/test_watched_gateways",
    "gateway_stopped": "test_stops",
    "record_deleted": "test_deletion",
    "storage_gone": "test_single_faults",
}
"""The faults that other tests prove, and their modules, by default in this folder."""


@pytest.mark.timeout(1200)
def test_sessions_survive_every_kind_of_fault_and_nothing_else_remains(start_site):
    rounds = Rounds(start_site(Timeouts(idle_seconds=30), pipes_logs=True), THINK_SECONDS, CLIENTS)
    for plan in plan_all_faults(SEED, ABSENCE_SECONDS, without=PROVED_ALONE.keys()):
        print(f"Round {plan.seed}: {', '.join(fault.name for fault in plan.faults)}", flush=True)
        print(rounds.play(plan), flush=True)
    rounds.end()
