"""Rounds of faults for as long as asked: ``make soak``, and a failure again by its seed."""

import argparse
import os
import secrets
import sys
import warnings
from collections.abc import Sequence
from contextlib import ExitStack

from tests.chaos.ground import Ground
from tests.chaos.logs import kept
from tests.chaos.plans import at_random
from tests.chaos.rounds import Plan, RoundError, Rounds
from tests.chaos.site import Site, Times
from tests.cluster.builds import ProgramError, build
from tests.cluster.cluster import Cluster
from tests.cluster.directories import owned_directory

PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kwok", "helm")
ABSENCE_SECONDS = 60.0
IDLE_SECONDS = 30.0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--rounds", type=int, default=50, help="how many; default: 50")
    parser.add_argument("--seed", default=secrets.token_hex(4), help="what they follow from; default: a new one")
    parser.add_argument("--only", type=int, metavar="ROUND", help="play only this one of them")
    arguments = parser.parse_args()
    plans = list(at_random(arguments.seed, arguments.rounds, ABSENCE_SECONDS))
    if arguments.only is not None:
        plans = plans[arguments.only - 1 : arguments.only]
    again = f"--rounds {arguments.rounds} --seed {arguments.seed}"
    print(f"Seed {arguments.seed}: {len(plans)} rounds. The same again: python -m tests.chaos {again}")
    if os.geteuid() != 0:
        print("Only root may mount file systems. Run it as root.", file=sys.stderr)
        return 1
    try:
        build(PROGRAMS, announce=print)
    except ProgramError as error:
        print(error, file=sys.stderr)
        return 1
    return _play(plans)


def _play(plans: Sequence[Plan]) -> int:
    warnings.simplefilter("ignore", UserWarning)  # PySpark's, when it stops asking again
    with ExitStack() as stack:
        cluster = stack.enter_context(Cluster())
        directory = stack.enter_context(owned_directory())
        ground = stack.enter_context(Ground(cluster, directory))
        if ground.without_clocks is not None:
            print(f"Without faults of clocks. {ground.without_clocks}", file=sys.stderr)
        site = stack.enter_context(Site(ground, "soak", Times(idle_seconds=IDLE_SECONDS)))
        rounds = Rounds(site)
        try:
            for plan in plans:
                print(f"{plan.seed}: {', '.join(fault.name for fault in plan.faults)}: ", end="", flush=True)
                print(rounds.play(plan), flush=True)
            rounds.end()
        except RoundError as error:
            print(f"FAILED\n{error}\nLogs: {kept(directory)}", flush=True)
            return 1
    print("All rounds passed.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
