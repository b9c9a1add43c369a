"""What the running gateway keeps for the gateway that replaces it: settings, credentials and ids of roots.

After a reload that is refused, the files contain settings or credentials with which no gateway can start. The watcher
does not read files itself, because that may block. So each gateway keeps what it has accepted in memory that it shares
with its watcher. The ids of the roots tell the new gateway whether other storage was mounted in place of the workspace.
"""

import hashlib
import os
import pickle
from typing import Any

_DIGEST_BYTES = 32


class KeptValue:
    """Shared memory for one value that can be pickled. It exists as long as a process uses it.

    One process at a time writes the value. A process that dies during a write leaves the former value.
    """

    def __init__(self) -> None:
        self._slots = tuple(os.memfd_create(f"lodge-kept-{number}") for number in range(2))
        self._writes: int | None = None

    def write(self, value: Any) -> None:
        """Replace the value."""
        if self._writes is None:
            self._writes = self._read()[0]  # another process may have written before
        self._writes += 1
        content = pickle.dumps((self._writes, value))
        slot = self._slots[self._writes % 2]
        os.ftruncate(slot, 0)
        os.pwrite(slot, hashlib.sha256(content).digest() + content, 0)

    def read(self) -> Any | None:
        """Return the value. None if there is none."""
        return self._read()[1]

    def _read(self) -> tuple[int, Any | None]:
        """Return how often the value was written, and the value."""
        return max((_read_slot(slot) for slot in self._slots), key=lambda found: found[0])


def _read_slot(slot: int) -> tuple[int, Any | None]:
    stored = os.pread(slot, os.fstat(slot).st_size, 0)
    digest, content = stored[:_DIGEST_BYTES], stored[_DIGEST_BYTES:]
    if hashlib.sha256(content).digest() != digest:
        return 0, None
    found: tuple[int, Any] = pickle.loads(content)  # noqa: S301 - written by a process that this one has started
    return found
