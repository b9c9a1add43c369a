"""How large a directory is that somebody else may change meanwhile.

Guarantees:

1. No link is followed and nothing is opened but directories, also if the owner exchanges them for links or FIFOs at
   that moment: each is opened below its open parent, and only if it is a directory.
2. A tree deeper than a table can be is an error, so that no owner makes this process run out of descriptors.
"""

import errno
import stat
from contextlib import ExitStack, suppress
from pathlib import Path

from workspace.files.private_files import open_directory, scan_directory

DEEPEST = 64


def size_below(directory: int, depth: int = 0) -> int:
    """The sizes of all regular files below an open directory; what vanishes meanwhile does not count.

    Raises: OSError, also if it is deeper than ``DEEPEST``.
    """
    if depth > DEEPEST:
        raise OSError(errno.ELOOP, f"A table's directory is deeper than {DEEPEST} levels")
    size_bytes = 0
    for item in scan_directory(directory):
        with suppress(FileNotFoundError):
            status = item.stat(follow_symlinks=False)
            if stat.S_ISREG(status.st_mode):
                size_bytes += status.st_size
            elif stat.S_ISDIR(status.st_mode):
                size_bytes += _size_of(item.name, directory, depth + 1)
    return size_bytes


def _size_of(name: str, parent: int, depth: int) -> int:
    with ExitStack() as stack:
        try:
            directory = stack.enter_context(open_directory(Path(name), parent))
        except NotADirectoryError:  # exchanged for something else meanwhile
            return 0
        return size_below(directory, depth)
