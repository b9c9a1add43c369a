"""A wall clock for one process, which a test can shift while the process runs.

Linux has no time namespace for the wall clock. A small preloaded library (``wall_clock.c``, compiled on use) shifts
the wall clock that the process reads, and the time until which it waits. The monotonic clock, which Lodge uses, is
unchanged. Debian's libfaketime does the same, but breaks Python's ``time.sleep``.
"""

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

_SOURCE = Path(__file__).with_suffix(".c")
_BYTES = 8


class MissingCompilerError(Exception):
    """Clocks cannot be shifted on this machine. The message says what to install."""


def compile_library(directory: Path) -> Path:
    """Compile the library into a directory and return its path.

    Raises:
        MissingCompilerError: If there is no C compiler.
    """
    compiler = shutil.which("cc")
    if compiler is None:
        raise MissingCompilerError("Shifting wall clocks needs a C compiler (cc), which is missing. Install gcc.")
    library = directory / "wall_clock.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-O2", "-o", library, _SOURCE, "-ldl"], check=True)
    return library


class WallClock:
    """The clock of one process, over all its starts.

    Args:
        library: The library that `compile_library` returned.
        file: A file for the clock's offset.
    """

    def __init__(self, library: Path, file: Path) -> None:
        self._library, self._file = library, file
        file.write_bytes(bytes(_BYTES))

    def set(self, offset_seconds: int) -> None:
        """Set the clock to the true time plus an offset."""
        with self._file.open("r+b", buffering=0) as file:
            file.write(offset_seconds.to_bytes(_BYTES, "little", signed=True))

    def environment(self) -> Mapping[str, str]:
        """Return the environment variables for the process."""
        return {"LD_PRELOAD": str(self._library), "LODGE_CLOCK_FILE": str(self._file)}
