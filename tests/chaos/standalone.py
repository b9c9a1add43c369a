"""Runs on a site of their own, for commands outside pytest."""

import os
import sys
import warnings
from collections.abc import Callable
from contextlib import ExitStack

from tests.chaos.logs import save_logs
from tests.chaos.site import Site, Timeouts
from tests.chaos.stores import KUBERNETES, S3
from tests.chaos.testbed import Testbed
from tests.cluster.builds import ProgramError, build
from tests.cluster.cluster import Cluster
from tests.cluster.directories import owned_directory
from tests.cluster.processes import ClusterError

PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kwok", "helm")
_S3_PROGRAMS = ("versitygw",)


def run_on_site(
    run: Callable[[Site], None],
    times: Timeouts,
    *failures: type[Exception],
    store: str = KUBERNETES,
    **options: int,
) -> int:
    """Start a site, run a function on it, and return the exit status of the command.

    Args:
        run: The function.
        times: The settings of the site.
        failures: The exceptions that report a violation.
        store: Where the site keeps its records and session locations.
        options: Further arguments of the site.
    """
    warnings.simplefilter("ignore", UserWarning)  # PySpark warns when it stops retrying
    if os.geteuid() != 0:
        print("Only root can mount file systems. Run it as root.", file=sys.stderr)
        return 1
    try:
        build([*PROGRAMS, *(_S3_PROGRAMS if store == S3 else ())], announce=print)
    except ProgramError as error:
        print(error, file=sys.stderr)
        return 1
    with ExitStack() as stack:
        cluster = stack.enter_context(Cluster())
        directory = stack.enter_context(owned_directory())
        testbed = stack.enter_context(Testbed(cluster, directory, has_s3=store == S3))
        for reason in testbed.missing_because:
            print(f"Skips faults. {reason}", file=sys.stderr)
        site = stack.enter_context(Site(testbed, "soak", times, store=store, **options))
        try:
            run(site)
        except (ClusterError, *failures) as error:
            print(f"FAILED\n{error}\nLogs: {save_logs(directory)}", flush=True)
            return 1
    return 0
