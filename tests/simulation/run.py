"""Run seeds of the simulation, and report violations of invariants.

- ``python -m tests.simulation.run --seeds 2000`` runs the seeds 0 to 1999.
- ``--seed 123`` runs one seed and prints its events.
- ``--mutations`` applies each mutation of :mod:`tests.simulation.mutations`, and looks for a seed that finds it.

A seed replays exactly. The program restarts itself with a fixed ``PYTHONHASHSEED``, because the order of sets depends
on it. It exits with 1 if an invariant did not hold, or if no seed found a mutation.
"""

import argparse
import gc
import os
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.simulation.mutations import MUTATIONS, Mutation
from tests.simulation.world import History, run_seed

_HASH_SEED = "0"
_PROGRESS_INTERVAL_SECONDS = 30.0
_SEEDS_PER_COLLECTION = 20
_TRACE_LINES = 200


@dataclass(slots=True)
class Campaign:
    """The result of many seeds.

    Attributes:
        seeds: The number of seeds.
        steps: The number of their events.
        counts: How often each kind of event happened.
        failures: The seeds that violated an invariant.
        cpu_seconds: The CPU time.
    """

    seeds: int = 0
    steps: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    failures: list[History] = field(default_factory=list)
    cpu_seconds: float = 0.0

    def __str__(self) -> str:
        speed = self.seeds / max(self.cpu_seconds, 0.001)
        return (
            f"{self.seeds} seeds, {self.steps} steps, {self.cpu_seconds:.1f} s of CPU time ({speed:.1f} seeds/s), "
            f"{len(self.failures)} violated an invariant"
        )


def run_seeds(seeds: Iterable[int], root: Path, max_failures: int = 1) -> Campaign:
    """Run seeds until a number of them violate an invariant.

    Args:
        seeds: The seeds.
        root: An empty directory.
        max_failures: Stop after this many violations.
    """
    campaign = Campaign()
    started_cpu_seconds, reported_seconds = time.process_time(), time.monotonic()
    was_collecting = gc.isenabled()
    gc.collect()
    gc.freeze()  # exempts all imported modules from further collections
    gc.disable()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # coroutines of dead processes are never awaited
            for seed in seeds:
                history = run_seed(seed, root)
                campaign.seeds += 1
                campaign.steps += history.steps
                campaign.counts += history.counts
                campaign.cpu_seconds = time.process_time() - started_cpu_seconds
                if history.violation is not None:
                    campaign.failures.append(history)
                    print(f"seed {seed} violated {history.violation}", flush=True)
                    if len(campaign.failures) >= max_failures:
                        break
                if campaign.seeds % _SEEDS_PER_COLLECTION == 0:
                    gc.collect()
                if time.monotonic() - reported_seconds > _PROGRESS_INTERVAL_SECONDS:
                    reported_seconds = time.monotonic()
                    print(f"... {campaign}", flush=True)
    finally:
        gc.unfreeze()
        if was_collecting:
            gc.enable()
    return campaign


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Simulate gateways, reapers and clients over many seeds.")
    parser.add_argument("--seeds", type=int, default=2000, help="the number of seeds")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seed", type=int, help="run only this seed, and print its events")
    parser.add_argument("--max-failures", type=int, default=1, help="stop after this many violations")
    parser.add_argument(
        "--mutations",
        nargs="?",
        const="1/1",
        help="find a seed for each mutation; 2/3 runs the second third of the mutations",
    )
    parser.add_argument(
        "--lines", type=int, default=_TRACE_LINES, help="the number of last lines to print with --seed; 0 prints all"
    )
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="lodge-simulation-") as directory:
        if options.seed is not None:
            return _replay(options.seed, Path(directory), options.lines)
        seeds = range(options.first, options.first + options.seeds)
        if options.mutations:
            part, parts = map(int, options.mutations.split("/"))
            return _run_mutations(MUTATIONS[part - 1 :: parts], seeds, Path(directory))
        campaign = run_seeds(seeds, Path(directory), options.max_failures)
    for event, count in sorted(campaign.counts.items()):
        print(f"{count:10} {event}")
    print(campaign)
    for history in campaign.failures:
        print(f"Replay with: make soak SEED={history.seed}")
    return 1 if campaign.failures else 0


def _run_mutations(mutations: Sequence[Mutation], seeds: Sequence[int], root: Path) -> int:
    """Apply each mutation until a seed finds it that has no violation without it."""
    missed = 0
    for mutation in mutations:
        remaining, found = mutation.seeds(seeds), ""
        tried, started_cpu_seconds = 0, time.process_time()
        while not found:
            with mutation.apply():
                campaign = run_seeds(remaining, root)
            tried += campaign.seeds
            failures = campaign.failures
            if not failures:
                break
            violation = failures[0].violation
            is_expected = violation is not None and violation.invariant in mutation.invariants
            if is_expected and not run_seeds([failures[0].seed], root).failures:
                found = f" by seed {failures[0].seed}"
        missed += not found
        found += f" ({tried} seeds, {time.process_time() - started_cpu_seconds:.0f} s of CPU time)" if found else ""
        print(f"{'found' if found else 'MISSED'}: {mutation}{found}", flush=True)
    return 1 if missed else 0


def _replay(seed: int, root: Path, lines: int) -> int:
    trace: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        history = run_seed(seed, root, trace)
    print("\n".join(trace[-lines:]))
    print(f"seed {seed}, {history.steps} steps: {history.violation or 'all invariants held'}")
    return 1 if history.violation is not None else 0


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != _HASH_SEED:
        os.environ["PYTHONHASHSEED"] = _HASH_SEED
        os.execv(sys.executable, [sys.executable, "-m", "tests.simulation.run", *sys.argv[1:]])  # noqa: S606 - itself
    sys.exit(main())
