"""A file system that does not respond, as a network file system whose server is gone.

It is a FUSE file system whose program never answers. Each access to it hangs until the end of the mount.

``python -m tests.hung_file_system DIRECTORY`` mounts it until SIGTERM, for a mount namespace of another process.
"""

import ctypes
import os
import signal
import sys
from pathlib import Path
from typing import Self

from tests.skips import require_root, skip_missing

_DETACH = 2


class HungFileSystem:
    """A mount that hangs each access. Use it as a context manager.

    Args:
        directory: The directory over which it is mounted.
    """

    def __init__(self, directory: Path) -> None:
        require_root()
        if not Path("/dev/fuse").exists():
            skip_missing("The kernel has no FUSE. Load the module fuse.")
        self._directory = os.fsencode(directory)
        self._libc = ctypes.CDLL(None, use_errno=True)

    def __enter__(self) -> Self:
        self._device = os.open("/dev/fuse", os.O_RDWR)
        options = f"fd={self._device},rootmode=40000,user_id=0,group_id=0".encode()
        if self._libc.mount(b"hung", self._directory, b"fuse", 0, options) != 0:
            reason = os.strerror(ctypes.get_errno())
            os.close(self._device)
            skip_missing(f"FUSE file systems cannot be mounted: {reason}. Run the tests with CAP_SYS_ADMIN.")
        return self

    def __exit__(self, *_: object) -> None:
        self._libc.umount2(self._directory, _DETACH)
        os.close(self._device)  # all hanging accesses fail


def main() -> None:
    ending = {signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, ending)
    with HungFileSystem(Path(sys.argv[1])):
        print("mounted", flush=True)
        signal.sigwait(ending)


if __name__ == "__main__":
    main()
