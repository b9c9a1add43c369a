"""The test cluster for developers.

The targets ``cluster``, ``cluster-down`` and ``cluster-programs`` of the Makefile use it. The cluster has one simulated
node, or the given number of real nodes. It uses one directory below the user's cache directory. A process in the
background runs it and holds a lock on that directory. So at most one cluster runs, and every command can tell whether
it runs.
"""

import argparse
import fcntl
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from tests.cluster.builds import (
    OPTIONAL_PROGRAMS,
    PROGRAMS,
    PROGRAMS_OF_A_CLUSTER,
    PROGRAMS_OF_MACHINES,
    ProgramError,
    build,
    cache_directory,
    find_missing_tool,
)
from tests.cluster.cluster import Cluster
from tests.cluster.machines.image_store import import_image
from tests.cluster.machines.machines import install_tools
from tests.cluster.processes import ClusterError, wait_until

REPOSITORY = Path(__file__).parents[2]
UP_SECONDS = 180.0
DOWN_SECONDS = 60.0


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.cluster", description="A real Kubernetes cluster for developers."
    )
    commands = parser.add_subparsers(required=True)
    for name, command, help_line in (
        ("up", up, "start the cluster unless it runs, and print how to reach it"),
        ("down", down, "stop the cluster, and remove its data but not the programs"),
        ("load", load, "add images to all real nodes"),
        ("programs", programs, "build the missing programs"),
        ("run", run, "run the cluster in this process (internal)"),
    ):
        added = commands.add_parser(name, help=help_line)
        added.set_defaults(command=command)
        if name in {"up", "run"}:
            added.add_argument("--nodes", type=int, default=0, help="the number of real nodes; 0 for a simulated node")
        if name == "load":
            added.add_argument("archives", type=Path, nargs="+", help="files in the format of `docker save`")
    arguments = parser.parse_args()
    try:
        return arguments.command(cache_directory() / "developer", arguments)
    except (ClusterError, ProgramError) as error:
        _print_status(str(error))
        return 1


def up(directory: Path, arguments: argparse.Namespace) -> int:
    """Start the cluster. Standard output contains only a shell command."""
    if not _is_running(directory):
        shutil.rmtree(directory, ignore_errors=True)
        if arguments.nodes and (problem := install_tools()):
            raise ClusterError(problem)
        build([*PROGRAMS_OF_A_CLUSTER, *(PROGRAMS_OF_MACHINES if arguments.nodes else ())], announce=_print_status)
        _print_status("Starting a cluster ...")
        _start_in_background(arguments.nodes)
    wait_until((directory / "ready").exists, f"the cluster in {directory} is ready", UP_SECONDS)
    print(f"export KUBECONFIG={directory / 'kubeconfig'}")
    return 0


def down(directory: Path, _: argparse.Namespace) -> int:
    if not _is_running(directory):
        shutil.rmtree(directory, ignore_errors=True)
        return 0
    process = directory / "process"
    wait_until(lambda: process.exists() and process.read_text(), f"{process} is written", UP_SECONDS)
    os.kill(int(process.read_text()), signal.SIGTERM)
    wait_until(lambda: not directory.exists(), f"the cluster in {directory} has ended", DOWN_SECONDS)
    return 0


def load(directory: Path, arguments: argparse.Namespace) -> int:
    """Add images to all real nodes. Each node has an image store of its own."""
    sockets = sorted(directory.glob("node-*/containerd.sock"))
    if not sockets:
        raise ClusterError("No real nodes are running. Start them with `make cluster NODES=2`.")
    for socket in sockets:
        for archive in arguments.archives:
            import_image(socket, archive)
    return 0


def programs(_: Path, __: argparse.Namespace) -> int:
    buildable = [name for name in PROGRAMS if name not in OPTIONAL_PROGRAMS or not find_missing_tool([name])]
    build(buildable, announce=_print_status)
    return 0


def run(directory: Path, arguments: argparse.Namespace) -> int:
    """Run a cluster until SIGTERM.

    Prints only until the cluster is ready, which explains a failed start.
    """
    directory.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    (directory / "process").write_text(str(os.getpid()))
    with Cluster(scheduler=True, machines=arguments.nodes, directory=directory) as cluster:
        if not arguments.nodes:
            cluster.node("node-1")
        (directory / "ready").touch()
        silence = os.open(os.devnull, os.O_WRONLY)
        for stream in (sys.stdout, sys.stderr):
            os.dup2(silence, stream.fileno())
        signal.pause()
    return 0


def _print_status(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _start_in_background(nodes: int) -> None:
    """Start the background process, and return when the cluster runs.

    Raises:
        ClusterError: The cluster did not start.
    """
    command = [sys.executable, "-m", "tests.cluster", "run", f"--nodes={nodes}"]
    process = subprocess.Popen(
        command,
        cwd=REPOSITORY,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    assert process.stdout is not None
    output = process.stdout.read().decode(errors="replace")
    if not _is_running(cache_directory() / "developer"):
        raise ClusterError(f"The cluster did not start:\n{output}")


def _is_running(directory: Path) -> bool:
    """Return whether a process holds the lock on the directory."""
    try:
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


if __name__ == "__main__":
    sys.exit(main())
