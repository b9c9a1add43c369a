"""Play rounds of faults (``make soak``), or repeat a round by its seed."""

import argparse
import secrets
import sys
from collections.abc import Sequence
from dataclasses import replace

from tests.chaos.faults import FAULTS
from tests.chaos.plans import plan_random_faults
from tests.chaos.rounds import Plan, RoundError, Rounds
from tests.chaos.site import Site, Timeouts
from tests.chaos.standalone import run_on_site
from tests.chaos.stores import KUBERNETES, STORES

ABSENCE_SECONDS = 60.0
IDLE_SECONDS = 30.0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--rounds", type=int, default=50, help="number of rounds; default: 50")
    parser.add_argument("--seed", default=secrets.token_hex(4), help="the seed of the rounds; default: random")
    parser.add_argument("--only", type=int, metavar="ROUND", help="play only this round")
    parser.add_argument("--store", choices=STORES, default=KUBERNETES, help=f"the store; default: {KUBERNETES}")
    parser.add_argument("--fault", action="append", choices=sorted(FAULTS), help="use only these faults, in all rounds")
    arguments = parser.parse_args()
    plans = list(plan_random_faults(arguments.seed, arguments.rounds, ABSENCE_SECONDS, arguments.store))
    if arguments.fault:
        plans = [replace(plan, faults=[FAULTS[name] for name in arguments.fault]) for plan in plans]
    if arguments.only is not None:
        plans = plans[arguments.only - 1 : arguments.only]
    again = "".join(f" --fault {name}" for name in arguments.fault or ())
    again = f"--rounds {arguments.rounds} --seed {arguments.seed} --store {arguments.store}{again}"
    print(f"Seed {arguments.seed}: {len(plans)} rounds. To repeat them: python -m tests.chaos {again}")
    times = Timeouts(idle_seconds=IDLE_SECONDS)
    return run_on_site(lambda site: _play(site, plans), times, RoundError, pipes_logs=True, store=arguments.store)


def _play(site: Site, plans: Sequence[Plan]) -> None:
    rounds = Rounds(site)
    for plan in plans:
        print(f"{plan.seed}: {', '.join(fault.name for fault in plan.faults)}: ", end="", flush=True)
        print(rounds.play(plan), flush=True)
    rounds.end()
    print("All rounds passed.")


if __name__ == "__main__":
    sys.exit(main())
