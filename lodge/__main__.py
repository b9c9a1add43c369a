"""Entry point of the command ``lodge`` and of ``python -m lodge``."""

import atexit
import os
import sys

from lodge.cli import main


def run() -> None:
    """Run the command, and end the process without the finalization of Python.

    During finalization, Python ends a thread that wants to run in the middle of its function. If a library in C or C++
    is part of the call, the process can abort, so that a gateway that stopped in order ends with an error.
    """
    status = main()
    atexit._run_exitfuncs()  # Python has no public function for it
    for stream in (sys.stdout, sys.stderr):
        try:
            if not stream.closed:
                stream.flush()
        except OSError:
            status = status or 1
    os._exit(status)


if __name__ == "__main__":
    run()
