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
SEEDS = 2000
MOST_SECONDS = 900
REACHED = {
    "client_told_LODGE_LEASE_LOST": "a gateway that was fenced",
    "client_told_LODGE_STATEMENT_LOST": "a statement that was lost with its gateway",
    "gateway_doubted": "a node that seemed not to answer",
    "late_writes": "a task that wrote a file late",
    "locations_brought_back": "a task that brought a location back",
    "lost_holders_forgotten": "a replica that was taken out of a living session",
    "mass_expiry_confirmed": "a mass expiry that an operator confirmed",
    "operator_deleted_record": "a session whose end an operator asked for",
    "orphan_location_deleted": "a location without a record",
    "orphan_table_deleted": "a directory that no record names",
    "session_adopted": "a session that another replica adopted",
    "session_lost": "a session that was gone when its replica came back",
    "session_reaped": "a session that the reaper ended",
    "statement_taken_over": "a statement that another replica completed",
    "unfinished_writes_undone": "a write that the reaper undid",
}
"""Events that must happen at least ten times over all histories; otherwise the test proves little."""


PROCESSES = 2
"""The number of simulations at the same time. Each uses one processor, because its steps run one after another."""


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.simulation.run", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=MOST_SECONDS, check=False)


def run_parts(parts: Sequence[Sequence[str]]) -> str:
    """Run several simulations at the same time, and return their output."""
    with ThreadPoolExecutor(len(parts)) as threads:
        all_done = list(threads.map(lambda part: run(*part), parts))
    for done in all_done:
        assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return "".join(done.stdout for done in all_done)


@pytest.mark.timeout(MOST_SECONDS)
def test_the_invariants_hold_in_all_histories() -> None:
    seeds = SEEDS // PROCESSES
    output = run_parts([("--first", str(seeds * part), "--seeds", str(seeds)) for part in range(PROCESSES)])
    counts: Counter[str] = Counter()
    for count, event in re.findall(r"^ *(\d+) (\S+)$", output, re.MULTILINE):
        counts[event] += int(count)
    seldom = {meaning: counts[event] for event, meaning in REACHED.items() if counts[event] < 10}
    assert not seldom, f"hardly any history had {seldom}"


@pytest.mark.timeout(MOST_SECONDS)
def test_the_simulation_finds_each_mistake_that_is_made_on_purpose() -> None:
    parts = [(f"--mutations={part}/{PROCESSES}", "--seeds", str(SEEDS)) for part in range(1, PROCESSES + 1)]
    found = [line for line in run_parts(parts).splitlines() if line.startswith("found: ")]
    assert len(set(found)) == len(MUTATIONS)


def test_a_seed_replays_exactly_alone_and_among_others() -> None:
    once, again = (run("--seed", "11", "--lines", "0").stdout for _ in range(2))
    assert once == again
    assert len(once.splitlines()) > 50
    steps = re.search(r"seed 11, (\d+) steps", once)
    alone, others = (
        re.search(r"(\d+) steps", run("--first", first, "--seeds", seeds).stdout)
        for first, seeds in (("11", "1"), ("5", "6"))
    )
    with_others = re.search(r"(\d+) steps", run("--first", "5", "--seeds", "7").stdout)
    assert steps and alone and others and with_others
    assert int(steps[1]) == int(alone[1]) == int(with_others[1]) - int(others[1])
