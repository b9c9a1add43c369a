"""Simulated histories keep the invariants of :mod:`tests.simulation.invariants`.

Each simulation runs in a process of its own, which fixes the order of sets: the history of a seed depends on it.
"""

import re
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.simulation.mutations import MUTATIONS

ROOT = Path(__file__).parents[2]
SEEDS = 200
"""The number of seeds in a round. `make soak` runs many more."""

MOST_ROUNDS = 10
"""How many rounds may run until every expected event has happened often enough. One or two are usual."""

MUTATION_SEEDS = 6000
OFTEN = 2
TIMEOUT_SECONDS = 3600
EXPECTED_EVENTS = {
    "adoption_awaited": "a reaper that waited for an adoption",
    "client_error_LODGE_LEASE_LOST": "a client's call to a fenced gateway",
    "client_error_LODGE_LIMIT_REACHED": "a statement that a quota refused",
    "client_error_LODGE_STATEMENT_LOST": "a statement lost with its gateway",
    "event_loop_recovered": "an event loop that responded again after a stall",
    "gateway_doubted": "a node that seemed silent",
    "grace_periods_restarted": "a reaper that was interrupted",
    "late_writes": "a late write of a task",
    "lease_renewal_stopped": "a gateway whose event loop stalled for too long",
    "locations_restored": "a removed location that a late write restored",
    "lost_holders_forgotten": "a dead replica removed from a session that others serve",
    "mass_expiry_confirmed": "a confirmed mass expiry",
    "operator_deleted_record": "a session that an operator ended",
    "orphan_location_deleted": "a removed location without a record",
    "orphan_table_deleted": "a removed directory that no record named",
    "session_adopted": "an adopted session",
    "session_lost": "a session that had ended when its replica returned",
    "session_reaped": "a session that the reaper ended",
    "statement_handed_over": "a statement that a stopping gateway handed over",
    "statement_taken_over": "a statement that another replica completed",
    "unfinished_writes_undone": "a write that the reaper undid",
}
"""Events that must happen at least `OFTEN` times over all histories; otherwise the test proves little."""

PROCESSES = 2
"""The number of simulations at the same time. Each uses one processor, because its steps run one after another."""


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.simulation.run", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False)


def run_parts(parts: Sequence[Sequence[str]]) -> str:
    """Run several simulations at the same time, and return their output."""
    with ThreadPoolExecutor(len(parts)) as threads:
        results = list(threads.map(lambda part: run(*part), parts))
    for result in results:
        assert result.returncode == 0, f"{result.stdout[-3000:]}\n{result.stderr[-3000:]}"
    return "".join(result.stdout for result in results)


def events_in_round(number: int) -> Counter[str]:
    """Run the histories of a round, and return how often each event happened."""
    seeds = SEEDS // PROCESSES
    first = number * SEEDS
    output = run_parts([("--first", str(first + seeds * part), "--seeds", str(seeds)) for part in range(PROCESSES)])
    counts: Counter[str] = Counter()
    for count, event in re.findall(r"^ *(\d+) (\S+)$", output, re.MULTILINE):
        counts[event] += int(count)
    return counts


@pytest.mark.slow
@pytest.mark.timeout(TIMEOUT_SECONDS)
def test_invariants_hold_in_all_histories() -> None:
    counts: Counter[str] = Counter()
    rare = dict[str, int]()
    for number in range(MOST_ROUNDS):
        counts += events_in_round(number)
        rare = {meaning: counts[event] for event, meaning in EXPECTED_EVENTS.items() if counts[event] < OFTEN}
        assert counts["table_created"] >= (number + 1) * SEEDS, "creations of tables hardly ever succeed"
        if not rare:
            return
    pytest.fail(f"These events happened fewer than {OFTEN} times: {rare}")


@pytest.mark.slow
@pytest.mark.timeout(TIMEOUT_SECONDS)
def test_simulation_finds_every_mutation() -> None:
    parts = [(f"--mutations={part}/{PROCESSES}", "--seeds", str(MUTATION_SEEDS)) for part in range(1, PROCESSES + 1)]
    found = [line for line in run_parts(parts).splitlines() if line.startswith("found: ")]
    assert len(set(found)) == len(MUTATIONS)


@pytest.mark.slow
def test_seed_replays_exactly_alone_and_among_others() -> None:
    first_run, second_run = (run("--seed", "11", "--lines", "0").stdout for _ in range(2))
    assert first_run == second_run
    assert len(first_run.splitlines()) > 50
    steps = re.search(r"seed 11, (\d+) steps", first_run)
    others, with_others = (
        re.search(r"(\d+) steps", run("--first", "9", "--seeds", seeds).stdout) for seeds in ("2", "3")
    )
    assert steps and others and with_others
    assert int(steps[1]) == int(with_others[1]) - int(others[1])
