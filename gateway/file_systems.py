"""Access to the file systems of workspaces, some of which may not respond.

A workspace can be on a network file system whose server does not respond. A call to such a file system does not return,
and occupies its thread. This module limits the number of such threads, so that threads remain for other workspaces.

Guarantees:

1. At most ``MAX_ACCESSES`` threads access one workspace at the same time.
2. If all of them are waiting and the longest has waited for ``HUNG_SECONDS``, the file system is considered hung.
   Further accesses are refused at once, until an access returns.

The limit applies to the whole process, because a file system hangs for all its users.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gateway.errors import GatewayError, storage_unavailable
from workspace.workspaces import Workspace

MAX_ACCESSES = 8
HUNG_SECONDS = 5.0
_LOOK_SECONDS = 0.5


class FileSystems:
    """The accesses to file systems that are in progress, by directory of the workspace.

    Args:
        max_accesses: The maximum number of accesses to one directory at the same time.
        hung_seconds: How long an access can take before the file system may be considered hung.
    """

    def __init__(self, max_accesses: int = MAX_ACCESSES, hung_seconds: float = HUNG_SECONDS) -> None:
        self._max_accesses = max_accesses
        self._hung_seconds = hung_seconds
        self._ended = threading.Condition()
        self._begun_seconds: dict[Path, dict[object, float]] = {}

    @contextmanager
    def access(self, workspace: Workspace) -> Iterator[None]:
        """Access the files of a workspace within a block. Blocks while too many other threads access it.

        Raises:
            GatewayError: If the file system does not respond.
        """
        if not workspace.is_file_based:
            yield
            return
        root, access = workspace.root, object()
        with self._ended:
            accesses = self._begun_seconds.setdefault(root, {})
            while len(accesses) >= self._max_accesses:
                if self._is_hung(accesses):
                    raise _hung(workspace)
                self._ended.wait(_LOOK_SECONDS)
                accesses = self._begun_seconds.setdefault(root, {})
            accesses[access] = time.monotonic()
        try:
            yield
        finally:
            with self._ended:
                del accesses[access]
                if not accesses and self._begun_seconds.get(root) is accesses:
                    del self._begun_seconds[root]
                self._ended.notify_all()

    def require_responsive(self, workspace: Workspace) -> None:
        """Check that the file system of a workspace is not considered hung.

        Raises:
            GatewayError: If the file system does not respond.
        """
        with self._ended:
            accesses = self._begun_seconds.get(workspace.root, {}) if workspace.is_file_based else {}
            if len(accesses) >= self._max_accesses and self._is_hung(accesses):
                raise _hung(workspace)

    def _is_hung(self, accesses: dict[object, float]) -> bool:
        return time.monotonic() - min(accesses.values()) >= self._hung_seconds


def _hung(workspace: Workspace) -> GatewayError:
    return storage_unavailable(f"workspace [{workspace.name}]")


file_systems = FileSystems()
"""The file systems of this process."""
