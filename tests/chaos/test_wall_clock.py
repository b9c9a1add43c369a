"""A shifted clock changes the wall clock of one process, and no monotonic clock."""

import os
import subprocess
import sys
import time

import pytest

from tests.chaos.wall_clock import WallClock

_TELLS = """
import ctypes, sys, time
libc = ctypes.CDLL(None)
for line in sys.stdin:
    semaphore, until = ctypes.create_string_buffer(64), (ctypes.c_long * 2)(int(time.time()) + 1, 0)
    begun = time.monotonic()
    libc.sem_timedwait(semaphore, until)
    time.sleep(0.1)
    print(time.time(), time.monotonic(), time.monotonic() - begun, flush=True)
"""


@pytest.mark.slow
def test_process_sees_its_own_wall_clock_and_shared_monotonic_clock(clock_library, tmp_path):
    clock = WallClock(clock_library, tmp_path / "clock")
    with subprocess.Popen(
        [sys.executable, "-c", _TELLS],
        env=os.environ | clock.environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
    ) as process:
        for offset in (0, 600, -600):
            clock.set(offset)
            process.stdin.write("tell\n")
            wall, monotonic = time.time(), time.monotonic()
            its_wall, its_monotonic, waited_seconds = map(float, process.stdout.readline().split())
            assert wall <= its_wall - offset <= time.time()
            assert monotonic <= its_monotonic <= time.monotonic()
            assert 0.1 <= waited_seconds < 60
        process.stdin.close()
