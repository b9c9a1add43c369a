"""Which processes certainly run."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.processes import DIES_WITH_PARENT
from workspace.files.leases import FileLeases, running_replicas
from workspace.files.processes import describe_own_process, is_running
from workspace.identifiers import ReplicaId
from workspace.leases import STOPPED

A, B, C = ReplicaId("a"), ReplicaId("b"), ReplicaId("c")
PROGRAM = """
import sys
from workspace.files.processes import describe_own_process
print(describe_own_process(), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def other() -> Iterator["subprocess.Popen[str]"]:
    command = [*DIES_WITH_PARENT, sys.executable, "-c", PROGRAM]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.kill()


def description_of(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_process_runs_until_it_ends(other: "subprocess.Popen[str]") -> None:
    described = description_of(other)
    assert is_running(described)
    os.kill(other.pid, signal.SIGSTOP)
    os.waitpid(other.pid, os.WUNTRACED)
    assert not is_running(described)
    os.kill(other.pid, signal.SIGCONT)
    assert is_running(described)
    other.kill()
    other.wait()
    assert not is_running(described)


def test_other_processes_are_not_taken_for_it() -> None:
    machine, pid, start_time = describe_own_process().split(":")
    assert is_running(f"{machine}:{pid}:{start_time}")
    for changed in (
        f"{machine}:{pid}:{int(start_time) + 1}",
        f"{machine}0:{pid}:{start_time}",
        f"{machine}:1:{start_time}",
        f"{machine}:../self:{start_time}",
        f"{machine}:{pid}",
        "",
    ):
        assert not is_running(changed)


def test_leases_guarantee_8_mark_identifies_the_process(root: Path) -> None:
    leases = FileLeases(root, process=describe_own_process())
    for _ in range(2):
        leases.renew(A)
        leases.renew(C)
    FileLeases(root).renew(B)
    leases.stop(C)
    assert running_replicas(leases.list()) == {A}
    before = leases.list()[A]
    leases.renew(A)
    assert leases.list()[A] != before
    assert leases.list()[C] == STOPPED
