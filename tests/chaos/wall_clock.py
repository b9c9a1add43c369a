"""A wall clock of its own for a process, which a test sets forward and back while the process runs.

Linux has no such clock to give: its time namespaces are for the other clocks. So a small library is preloaded that
changes what the process reads of the wall clock and waits for by it (``wall_clock.c``, compiled where it is used). The
monotonic clock, by which Lodge judges time, goes on. Debian's libfaketime would do the same, but makes Python's
``time.sleep`` fail.
"""

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

_SOURCE = Path(__file__).with_suffix(".c")
_BYTES = 8


class MissingCompilerError(Exception):
    """Clocks cannot be set here; the message says what to install."""


def compiled(directory: Path) -> Path:
    """The library, compiled into a directory. Raises: MissingCompilerError"""
    compiler = shutil.which("cc")
    if compiler is None:
        raise MissingCompilerError("There is no C compiler (cc), which wall clocks of their own need: install gcc.")
    library = directory / "wall_clock.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-O2", "-o", library, _SOURCE, "-ldl"], check=True)
    return library


class WallClock:
    """The clock of one process, over all its starts.

    Args:
        library: As `compiled` returns it.
        file: Will say how far the clock is off.
    """

    def __init__(self, library: Path, file: Path) -> None:
        self._library, self._file = library, file
        file.write_bytes(bytes(_BYTES))

    def set(self, offset_seconds: int) -> None:
        """Sets it to the true time and so many seconds, at once."""
        with self._file.open("r+b", buffering=0) as file:
            file.write(offset_seconds.to_bytes(_BYTES, "little", signed=True))

    def environment(self) -> Mapping[str, str]:
        """For the process."""
        return {"LD_PRELOAD": str(self._library), "LODGE_CLOCK_FILE": str(self._file)}
