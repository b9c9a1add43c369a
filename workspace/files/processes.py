"""Identifies the process of a gateway, so that a reaper on the same machine can see that it runs.

A gateway whose storage fails cannot renew its lease, although it runs and its clients continue. The silence of its
lease then says nothing about the gateway.

Not guaranteed: a process on another machine, in another container, or of a user whose processes are hidden is not seen.
"""

import os
from pathlib import Path

_STOPPED_STATES = frozenset("TtZXx")
_AFTER_NAME = ") "
_STATE, _START_TIME = 0, 19  # fields of /proc/PID/stat after the name, which can contain blanks


def describe_own_process() -> str:
    """Return a text without blanks that identifies this process among all processes of all machines.

    Empty if the system does not tell.
    """
    try:
        return f"{_describe_machine()}:{os.getpid()}:{_read_status(os.getpid())[_START_TIME]}"
    except (OSError, IndexError):
        return ""


def is_running(described: str) -> bool:
    """Return whether a process certainly runs on this machine, and is not stopped by a signal."""
    try:
        machine, pid, start_time = described.split(":")
        if machine != _describe_machine():
            return False
        status = _read_status(int(pid))
        return status[_START_TIME] == start_time and status[_STATE] not in _STOPPED_STATES
    except (OSError, IndexError, ValueError):
        return False


def _describe_machine() -> str:
    """Return the identity of the running kernel and of the namespace of its process ids."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{boot}/{Path('/proc/self/ns/pid').stat().st_ino}"


def _read_status(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(_AFTER_NAME)[2].split()
