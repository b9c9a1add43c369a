"""What the running gateway keeps for the gateway that replaces it: its settings and its credentials.

After a reload that is refused, the files contain settings or credentials with which no gateway can start. The watcher
does not read files itself, because that may block. So each gateway keeps what it has accepted in memory that it shares
with its watcher.
"""

import hashlib
import os
import pickle
from typing import Any

_DIGEST_BYTES = 32


class KeptValue:
    """Shared memory for one value that can be pickled. It exists as long as a process uses it."""

    def __init__(self) -> None:
        self._file = os.memfd_create("lodge-kept")

    def write(self, value: Any) -> None:
        """Replace the value. A process that dies during the write leaves no value."""
        content = pickle.dumps(value)
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, hashlib.sha256(content).digest() + content, 0)

    def read(self) -> Any | None:
        """Return the value. None if there is none."""
        stored = os.pread(self._file, os.fstat(self._file).st_size, 0)
        digest, content = stored[:_DIGEST_BYTES], stored[_DIGEST_BYTES:]
        if hashlib.sha256(content).digest() != digest:
            return None
        return pickle.loads(content)  # noqa: S301 - written by a process that this one has started
