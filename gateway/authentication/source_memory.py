"""The contents of authentication sources, for the gateway that replaces this one.

A token file that was damaged, or an identity provider that does not respond, does not end the logins at a gateway whose
process is lost: the new process continues with the contents that the former one used last, as the former one would have
done.
"""

import threading
from typing import NamedTuple

from gateway.connections.kept_contents import KeptContents


class KeptSource(NamedTuple):
    """The last valid content of a source.

    Attributes:
        content: The content.
        valid_at: When it was read last, in seconds of the monotonic clock of this host.
    """

    content: bytes
    valid_at: float


KeptSources = KeptContents[dict[str, KeptSource]]


class SourceMemory:
    """The contents of all sources of a gateway.

    Args:
        kept: Memory that outlives the process of the gateway. None if there is none.
    """

    def __init__(self, kept: KeptSources | None = None) -> None:
        self._kept = kept
        self._former = (None if kept is None else kept.read()) or {}
        self._own: dict[str, KeptSource] = {}
        self._lock = threading.Lock()

    def of_former_gateway(self, name: str) -> KeptSource | None:
        """Return what the gateway before this one used last. None if there was no such gateway or source.

        Args:
            name: The name of the source.
        """
        return self._former.get(name)

    def forget_former_gateway(self) -> None:
        """Forget what the gateway before this one used, after all sources were read for the first time."""
        with self._lock:
            self._former = {}

    def keep(self, name: str, source: KeptSource) -> None:
        """Keep the content of a source, unless a later content was kept.

        Args:
            name: The name of the source.
            source: Its content.
        """
        if self._kept is None:
            return
        with self._lock:
            known = self._own.get(name)
            if known is None or known.valid_at <= source.valid_at:
                self._own[name] = source
                self._kept.write(self._former | self._own)
