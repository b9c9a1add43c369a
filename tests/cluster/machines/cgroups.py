"""Cgroups that disappear when their owner ends, even by SIGKILL."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_ROOT = Path("/sys/fs/cgroup")
_INHERITED = ("cpuset.cpus", "cpuset.mems")  # without them, a cgroup can have no processes
_CPU_SHARES = "8192"
"""Eight times the default, so that other programs of this machine cannot starve a node with its many processes."""

_SWEEP = """
cat >/dev/null
for _ in $(seq 100); do
    find "$1"/*/"$2" -depth -type d -exec rmdir {} + 2>/dev/null
    ls -d "$1"/*/"$2" >/dev/null 2>&1 || exit 0
    sleep 0.1
done
"""
"""Removes the cgroup when its input ends, which happens when the owner closes it or dies. It repeats the removal,
because the kernel may not have ended all processes."""


@contextmanager
def owned_cgroup(name: str) -> Iterator[str]:
    """Create a cgroup in all hierarchies. It disappears with the context or this process."""
    for hierarchy in [path for path in _ROOT.iterdir() if (path / "cgroup.procs").exists()]:
        (hierarchy / name).mkdir(exist_ok=True)
        for setting in _INHERITED:
            with suppress(FileNotFoundError):
                (hierarchy / name / setting).write_text((hierarchy / setting).read_text())
        shares = hierarchy / name / "cpu.shares"
        if shares.exists():
            shares.write_text(_CPU_SHARES)
    command = ["sh", "-c", _SWEEP, "sh", str(_ROOT), name]
    nothing = subprocess.DEVNULL
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=nothing, stderr=nothing, start_new_session=True):
        yield name
