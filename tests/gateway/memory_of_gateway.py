"""How much memory a gateway uses, if Python's garbage collector does not help it.

The collector counts objects, not bytes. If it had to free the messages of ended calls, a client could fill the memory
of a gateway with a few hundred calls, and what a test measures would depend on when the collector runs.
"""

from pathlib import Path

from tests.conftest import LodgeProcess

WITHOUT_COLLECTOR = """
import ctypes, gc, sys
from lodge.cli import main

gc.disable()
ctypes.CDLL(None).mallopt(-3, 2**20)  # M_MMAP_THRESHOLD: the system gets each large block back at once
sys.exit(main())
"""
"""The program of a gateway without a garbage collector."""


def resident_bytes(gateway: LodgeProcess) -> int:
    """Return how many bytes of memory a gateway uses."""
    return _read(gateway, "VmRSS")


def peak_bytes(gateway: LodgeProcess) -> int:
    """Return how many bytes of memory a gateway has used at most."""
    return _read(gateway, "VmHWM")


def _read(gateway: LodgeProcess, name: str) -> int:
    status = Path(f"/proc/{gateway.gateway_pid}/status").read_text()
    return 1024 * int(status.split(f"{name}:")[1].split()[0])
