"""Access to the file systems of workspaces, some of which may not respond.

A workspace can be on a network file system or in an object store whose server does not respond. A call to such a
storage does not return for a long time, and occupies its thread. This module limits the number of such threads, so
that threads remain for other workspaces.

Guarantees:

1. At most ``MAX_ACCESSES`` threads access one workspace at the same time.
2. If all of them are waiting and the longest has waited for ``HUNG_SECONDS``, the file system is considered hung.
   Further accesses are refused at once, until an access returns. For object stores, in which the listing of a large
   directory takes longer, it is ``HUNG_REMOTE_SECONDS``.

The limit applies to the whole process, because a file system hangs for all its users.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from gateway.errors import GatewayError, storage_unavailable
from workspace.workspaces import Workspace

MAX_ACCESSES = 8
HUNG_SECONDS = 5.0
HUNG_REMOTE_SECONDS = 20.0
_LOOK_SECONDS = 0.5


class FileSystems:
    """The accesses to file systems that are in progress, by directory of the workspace.

    Args:
        max_accesses: The maximum number of accesses to one directory at the same time.
        hung_seconds: How long an access can take before the file system may be considered hung.
        hung_remote_seconds: The same for object stores and HDFS.
    """

    def __init__(
        self,
        max_accesses: int = MAX_ACCESSES,
        hung_seconds: float = HUNG_SECONDS,
        hung_remote_seconds: float = HUNG_REMOTE_SECONDS,
    ) -> None:
        self._max_accesses = max_accesses
        self._hung_seconds = hung_seconds
        self._hung_remote_seconds = hung_remote_seconds
        self._ended = threading.Condition()
        self._begun_seconds: dict[str, dict[object, float]] = {}

    @contextmanager
    def access(self, workspace: Workspace) -> Iterator[None]:
        """Access the files of a workspace within a block. Blocks while too many other threads access it.

        Raises:
            GatewayError: If the file system does not respond.
        """
        if not (workspace.is_file_based or workspace.is_remote_source):
            yield
            return
        root, access = workspace.uri, object()
        with self._ended:
            accesses = self._begun_seconds.setdefault(root, {})
            while len(accesses) >= self._max_accesses:
                if self._is_hung(accesses, workspace):
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
            accesses = self._begun_seconds.get(workspace.uri, {})
            if len(accesses) >= self._max_accesses and self._is_hung(accesses, workspace):
                raise _hung(workspace)

    def _is_hung(self, accesses: dict[object, float], workspace: Workspace) -> bool:
        limit_seconds = self._hung_remote_seconds if workspace.is_remote_source else self._hung_seconds
        return time.monotonic() - min(accesses.values()) >= limit_seconds


def _hung(workspace: Workspace) -> GatewayError:
    return storage_unavailable(f"workspace [{workspace.name}]")


file_systems = FileSystems()
"""The file systems of this process."""
