"""What a gateway tells its watcher, in memory that both processes share.

A gateway that is stuck, for example in a function in C that never returns, cannot send anything. The watcher therefore
reads memory in which the gateway counts. The memory is anonymous: it belongs to the watcher and to the processes that
the watcher forks, and disappears with them.

Source: [architecture "The watcher"].
"""

import json
import mmap
import struct
from dataclasses import asdict, dataclass

from workspace.identifiers import ReplicaId

_BYTES = 64 * 1024
_COUNTERS = struct.Struct("=QQQ")
_LENGTH = struct.Struct("=Q")
_TEXT = _COUNTERS.size + _LENGTH.size


@dataclass(frozen=True, slots=True)
class Identity:
    """What a gateway that was started again needs to know about the one before it.

    Attributes:
        replica: The name of the replica.
        listen: The address on which it listened, in the form ``host:port``.
        certificate_listen: The address for clients with certificates; None if it had none.
        metrics_listen: The address for probes and metrics; None if it had none.
    """

    replica: ReplicaId
    listen: str
    certificate_listen: str | None
    metrics_listen: str | None


class LifeSigns:
    """The shared memory of a watcher and one gateway after the other. Create it before the fork."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, _BYTES)

    def beat(self) -> None:
        """Show that the event loop of the gateway responds."""
        self._count(beats=1)

    def count_reload(self) -> None:
        """Show that the gateway uses a new configuration."""
        self._count(reloads=1)

    def count_restart(self) -> None:
        """Show that a gateway is started again."""
        self._count(restarts=1)

    @property
    def beats(self) -> int:
        """How often the event loops of the gateways have responded."""
        return self._counters()[0]

    @property
    def reloads(self) -> int:
        """How often the gateways have used a new configuration."""
        return self._counters()[1]

    @property
    def restarts(self) -> int:
        """How often a gateway was started again."""
        return self._counters()[2]

    @property
    def identity(self) -> Identity | None:
        """The last gateway that was ready. None if none was."""
        (length,) = _LENGTH.unpack_from(self._memory, _COUNTERS.size)
        return Identity(**json.loads(self._memory[_TEXT : _TEXT + length])) if length else None

    @identity.setter
    def identity(self, identity: Identity) -> None:
        text = json.dumps(asdict(identity)).encode()
        self._memory[_TEXT : _TEXT + len(text)] = text
        _LENGTH.pack_into(self._memory, _COUNTERS.size, len(text))

    def _count(self, *, beats: int = 0, reloads: int = 0, restarts: int = 0) -> None:
        before = self._counters()
        _COUNTERS.pack_into(self._memory, 0, before[0] + beats, before[1] + reloads, before[2] + restarts)

    def _counters(self) -> tuple[int, int, int]:
        beats, reloads, restarts = _COUNTERS.unpack_from(self._memory)
        return beats, reloads, restarts
