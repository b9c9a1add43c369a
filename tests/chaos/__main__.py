"""Play rounds of faults (``make soak``), or repeat a round by its seed."""

import argparse
import os
import secrets
import sys
import warnings
from collections.abc import Sequence
from contextlib import ExitStack

from tests.chaos.logs import save_logs
from tests.chaos.plans import plan_random_faults
from tests.chaos.rounds import Plan, RoundError, Rounds
from tests.chaos.site import Site, Timeouts
from tests.chaos.testbed import Testbed
from tests.cluster.builds import ProgramError, build
from tests.cluster.cluster import Cluster
from tests.cluster.directories import owned_directory

PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kwok", "helm")
ABSENCE_SECONDS = 60.0
IDLE_SECONDS = 30.0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--rounds", type=int, default=50, help="number of rounds; default: 50")
    parser.add_argument("--seed", default=secrets.token_hex(4), help="the seed of the rounds; default: random")
    parser.add_argument("--only", type=int, metavar="ROUND", help="play only this round")
    arguments = parser.parse_args()
    plans = list(plan_random_faults(arguments.seed, arguments.rounds, ABSENCE_SECONDS))
    if arguments.only is not None:
        plans = plans[arguments.only - 1 : arguments.only]
    again = f"--rounds {arguments.rounds} --seed {arguments.seed}"
    print(f"Seed {arguments.seed}: {len(plans)} rounds. To repeat them: python -m tests.chaos {again}")
    if os.geteuid() != 0:
        print("Only root can mount file systems. Run it as root.", file=sys.stderr)
        return 1
    try:
        build(PROGRAMS, announce=print)
    except ProgramError as error:
        print(error, file=sys.stderr)
        return 1
    return _play(plans)


def _play(plans: Sequence[Plan]) -> int:
    warnings.simplefilter("ignore", UserWarning)  # PySpark warns when it stops retrying
    with ExitStack() as stack:
        cluster = stack.enter_context(Cluster())
        directory = stack.enter_context(owned_directory())
        testbed = stack.enter_context(Testbed(cluster, directory))
        if testbed.clocks_missing_because is not None:
            print(f"Skips faults of clocks. {testbed.clocks_missing_because}", file=sys.stderr)
        site = stack.enter_context(Site(testbed, "soak", Timeouts(idle_seconds=IDLE_SECONDS)))
        rounds = Rounds(site)
        try:
            for plan in plans:
                print(f"{plan.seed}: {', '.join(fault.name for fault in plan.faults)}: ", end="", flush=True)
                print(rounds.play(plan), flush=True)
            rounds.end()
        except RoundError as error:
            print(f"FAILED\n{error}\nLogs: {save_logs(directory)}", flush=True)
            return 1
    print("All rounds passed.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
