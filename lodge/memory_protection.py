"""Keeps credentials in the memory of the process away from other processes."""

import ctypes
import resource
import sys

_PR_SET_DUMPABLE = 4


def forbid_core_dumps() -> None:
    """Forbid core dumps of this process, and access to its memory by other processes of its user.

    The memory contains the tokens of requests that are being handled, and private keys. On Linux, programs that this
    process starts are not affected. Root can still read the memory.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    else:
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
