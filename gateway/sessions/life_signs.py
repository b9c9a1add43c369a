"""The memory that a gateway shares with its watcher.

A gateway that is stuck, for example in a function in C that never returns, cannot send anything. The watcher therefore
reads memory in which the gateway counts. The memory is anonymous: it belongs to the watcher and to the processes that
the watcher forks, and disappears with them. Each value has one writer, and a gateway that is killed while it writes
leaves no value that looks valid.

Source: [architecture "The watcher"].
"""

import json
import mmap
import zlib
from dataclasses import asdict, dataclass

from workspace.identifiers import ReplicaId

_BYTES = 64 * 1024
_BEATS, _RESTARTS, _STOPPING, _LENGTH, _CHECKSUM = range(5)
_TEXT = 5 * 8


@dataclass(frozen=True, slots=True)
class Identity:
    """The name and the addresses of a gateway.

    Attributes:
        replica: The name of the replica.
        listen: The address on which it listens, in the form ``host:port``.
        certificate_listen: The address for clients with certificates; None if it has none.
        metrics_listen: The address for probes and metrics; None if it has none.
    """

    replica: ReplicaId
    listen: str
    certificate_listen: str | None
    metrics_listen: str | None


class LifeSigns:
    """The shared memory of a watcher and one gateway after the other. Create it before the fork."""

    def __init__(self) -> None:
        self._bytes = mmap.mmap(-1, _BYTES)
        self._numbers = memoryview(self._bytes)[:_TEXT].cast("Q")

    def beat(self) -> None:
        """Show that the event loop of the gateway responds. Only the gateway calls this."""
        self._numbers[_BEATS] += 1

    @property
    def beats(self) -> int:
        """The number of calls of :meth:`beat`."""
        return self._numbers[_BEATS]

    def count_restart(self) -> None:
        """Count a restart of the gateway. Only the watcher calls this."""
        self._numbers[_RESTARTS] += 1

    @property
    def restarts(self) -> int:
        """The number of restarts of the gateway."""
        return self._numbers[_RESTARTS]

    def begin_stop(self) -> None:
        """Record that everything stops, with the local Spark server. Only the watcher calls this."""
        self._numbers[_STOPPING] = 1

    @property
    def is_stopping(self) -> bool:
        """Whether everything stops."""
        return self._numbers[_STOPPING] == 1

    @property
    def identity(self) -> Identity | None:
        """The last gateway that was ready. None if there was none, or if the gateway was killed while it wrote."""
        text = self._bytes[_TEXT : _TEXT + self._numbers[_LENGTH]]
        if not text or zlib.crc32(text) != self._numbers[_CHECKSUM]:
            return None
        return Identity(**json.loads(text))

    @identity.setter
    def identity(self, identity: Identity) -> None:
        text = json.dumps(asdict(identity)).encode()
        self._bytes[_TEXT : _TEXT + len(text)] = text
        self._numbers[_LENGTH] = len(text)
        self._numbers[_CHECKSUM] = zlib.crc32(text)
