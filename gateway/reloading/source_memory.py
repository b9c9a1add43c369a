"""The contents of sources, for the gateway that replaces this one.

A file that was damaged, or an identity provider that does not respond, ends neither the sessions nor the logins at a
gateway whose process is lost: the new process continues with the contents that the former one used last, as the former
one would have done.
"""

import threading
from collections.abc import Hashable
from typing import Any, NamedTuple, Protocol, TypeVar

_Value = TypeVar("_Value")


class KeptContents(Protocol[_Value]):
    """Memory for one value that outlives the process of the gateway."""

    def read(self) -> _Value | None:
        """Return the value that was written last. None if there is none."""

    def write(self, value: _Value, /) -> None:
        """Replace the value."""


class KeptSource(NamedTuple):
    """The last valid content of a source.

    Attributes:
        content: The content.
        valid_at: When it was read last, in seconds of the monotonic clock of this host.
    """

    content: Any
    valid_at: float


class SourceMemory:
    """The contents of all sources of a gateway.

    Args:
        kept: Memory that outlives the process of the gateway. None if there is none.
    """

    def __init__(self, kept: KeptContents[dict[Hashable, KeptSource]] | None = None) -> None:
        self._kept = kept
        self._former = (None if kept is None else kept.read()) or {}
        self._own: dict[Hashable, KeptSource] = {}
        self._lock = threading.Lock()

    def of_former_gateway(self, name: Hashable) -> KeptSource | None:
        """Return what the gateway before this one used last.

        Args:
            name: The name of the source.

        Returns:
            The content. None if there was no such gateway, or it did not use the source.
        """
        return self._former.get(name)

    def forget_former_gateway(self) -> None:
        """Forget what the gateway before this one used.

        Call the method after all sources were read for the first time.
        """
        with self._lock:
            self._former = {}

    def keep(self, name: Hashable, source: KeptSource) -> None:
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
