"""Protection of credentials in memory (lodge.memory_protection)."""

import subprocess
import sys

import pytest

CHILD = """
import ctypes, subprocess, sys
GET_DUMPABLE = "import ctypes; print(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))"
from lodge.memory_protection import forbid_core_dumps
exec(GET_DUMPABLE)
forbid_core_dumps()
exec(GET_DUMPABLE, {})
sys.stdout.flush()
subprocess.run([sys.executable, "-c", GET_DUMPABLE])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux protects the memory of a process")
def test_process_cannot_be_dumped_and_its_children_can() -> None:
    done = subprocess.run([sys.executable, "-c", CHILD], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["1", "0", "1"]
