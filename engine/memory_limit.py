"""Limits the memory of a task.

A file of a few hundred bytes can ask for hundreds of gigabytes, for example with a dictionary that contains one long
value. Arrow decodes pages and stripes before the engine sees a value. If the system granted the memory, it would end a
worker, or an executor that others use. With the limit, the allocation fails, and the error names the file.

The limit counts memory that may be written. It does not count reserved addresses: the client of HDFS, which is a Java
virtual machine, reserves gigabytes of them and uses a small part.
"""

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ALLOWED_BYTES = 4 * 1024**3
"""How much a task may allocate beyond what its process has when the task begins."""

_OWN_PAGES = Path("/proc/self/statm")
_DATA = 5
"""The position of the pages that ``RLIMIT_DATA`` counts, and of the stack (see ``proc(5)``)."""


@contextmanager
def limited_memory(allowed_bytes: int = ALLOWED_BYTES) -> Iterator[None]:
    """Limit the memory of this process for the duration of the block, on Linux.

    An existing limit that is lower remains.
    """
    if not _OWN_PAGES.exists():
        yield
        return
    before = soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    used = int(_OWN_PAGES.read_text().split()[_DATA]) * resource.getpagesize()
    limits = [each for each in (used + allowed_bytes, soft, hard) if each != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_DATA, (min(limits), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)
