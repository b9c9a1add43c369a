"""The memory of a process, on Linux."""

from pathlib import Path


def resident_bytes(process: int) -> int:
    """Return how many bytes of memory a process uses.

    Args:
        process: The id of the process.

    Raises:
        OSError: If the process has ended.
    """
    return _read(process, "VmRSS")


def peak_bytes(process: int) -> int:
    """Return how many bytes of memory a process has used at most, see :func:`resident_bytes`."""
    return _read(process, "VmHWM")


def _read(process: int, name: str) -> int:
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return 1024 * int(line.split()[1])
    raise ProcessLookupError(f"The process {process} has ended.")  # its parent has not noticed it
