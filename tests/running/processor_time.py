"""The processor time of a process and of all its children, on Linux."""

import os
from collections import defaultdict
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


def processor_seconds(root: int) -> float:
    """Return the processor time of a process, its living descendants, and those that their parents have waited for."""
    children, ticks = defaultdict[int, list[int]](list), dict[int, int]()
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        try:
            status = Path(entry.path, "stat").read_text()
        except OSError:
            continue  # the process has ended
        fields = status[status.rindex(")") + 2 :].split()  # the name before may contain spaces
        children[int(fields[1])].append(int(entry.name))
        ticks[int(entry.name)] = sum(map(int, fields[11:15]))
    total, waiting = 0, [root]
    while waiting:
        process = waiting.pop()
        total += ticks.get(process, 0)
        waiting += children[process]
    return total / _TICKS
