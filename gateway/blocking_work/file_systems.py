"""Access to the file systems of workspaces, some of which may not respond.

A workspace can be on a network file system or in an object store whose server does not respond. A call to such a
storage does not return for a long time, and occupies its thread. This module limits the number of such threads, so
that threads remain for other workspaces.

Guarantees:

1. At most ``MAX_ACCESSES`` threads access one workspace at the same time. At most ``MAX_LISTINGS`` of them list
   directories, so that slow listings do not delay other accesses.
2. If an access finds no free place, and one of the accesses before it has not progressed for ``HUNG_SECONDS``, the file
   system is considered hung. Further accesses are refused at once, until an access returns or progresses. For object
   stores, whose requests take longer, it is ``HUNG_REMOTE_SECONDS``.
3. A principal has at most three quarters of these accesses, and of these listings, rounded down. If it finds no free
   place because of this limit, only its own accesses decide whether the file system is considered hung. So a principal
   whose accesses are slow or hang does not make the workspace unavailable for others.
4. A listing progresses whenever it calls the function that :meth:`FileSystems.listing` returns. A listing that takes
   long is not considered hung as long as it progresses.

The limits apply to the whole process, because a file system hangs for all its users.
"""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from gateway.blocking_work.principal_shares import calling_principal, share_of_principal
from gateway.errors import GatewayError, storage_unavailable
from workspace.workspaces import Workspace

MAX_ACCESSES = 8
MAX_LISTINGS = 6
HUNG_SECONDS = 5.0
HUNG_REMOTE_SECONDS = 20.0
_LOOK_SECONDS = 0.5


@dataclass(eq=False, slots=True)
class _Access:
    """An access in progress.

    Attributes:
        principal: The principal for which the thread works. None for the gateway itself.
        is_listing: Whether it lists directories.
        progressed_seconds: The time of its last progress.
    """

    principal: str | None
    is_listing: bool
    progressed_seconds: float


class FileSystems:
    """The accesses to file systems that are in progress, by directory of the workspace.

    Args:
        max_accesses: The maximum number of accesses to one directory at the same time.
        max_listings: How many of them can be listings.
        hung_seconds: How long an access can take without progress before the file system may be considered hung.
        hung_remote_seconds: The same for object stores and HDFS.
        monotonic: A function that returns the current time of a monotonic clock, in seconds.
    """

    def __init__(
        self,
        max_accesses: int = MAX_ACCESSES,
        max_listings: int = MAX_LISTINGS,
        hung_seconds: float = HUNG_SECONDS,
        hung_remote_seconds: float = HUNG_REMOTE_SECONDS,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._max_accesses = max_accesses
        self._max_listings = max_listings
        self._hung_seconds = hung_seconds
        self._hung_remote_seconds = hung_remote_seconds
        self._monotonic = monotonic
        self._changed = threading.Condition()
        self._accesses: dict[str, list[_Access]] = {}

    @contextmanager
    def access(self, workspace: Workspace) -> Iterator[None]:
        """Access the files of a workspace within a block. Blocks while too many other threads access it.

        Raises:
            GatewayError: If the file system does not respond.
        """
        with self._begin(workspace, is_listing=False):
            yield

    @contextmanager
    def listing(self, workspace: Workspace) -> Iterator[Callable[[], None]]:
        """List directories of a workspace within a block. Blocks while too many other threads access it.

        Yields:
            A function that the listing calls whenever it has progressed.

        Raises:
            GatewayError: If the file system does not respond.
        """
        with self._begin(workspace, is_listing=True) as access:

            def progress() -> None:
                access.progressed_seconds = self._monotonic()

            yield progress

    @contextmanager
    def _begin(self, workspace: Workspace, *, is_listing: bool) -> Iterator[_Access]:
        access = _Access(calling_principal.get(), is_listing, self._monotonic())
        if not (workspace.is_file_based or workspace.is_remote_source):
            yield access
            return
        root = workspace.uri
        with self._changed:
            while blocking := self._find_blocking(root, is_listing=is_listing):
                if self._is_hung(blocking, workspace):
                    raise _hung(workspace)
                self._changed.wait(_LOOK_SECONDS)
            access.progressed_seconds = self._monotonic()
            self._accesses.setdefault(root, []).append(access)
        try:
            yield access
        finally:
            with self._changed:
                self._accesses[root].remove(access)
                if not self._accesses[root]:
                    del self._accesses[root]
                self._changed.notify_all()

    def require_responsive(self, workspace: Workspace) -> None:
        """Check that the file system of a workspace is not considered hung.

        Raises:
            GatewayError: If the file system does not respond.
        """
        with self._changed:
            blocking = self._find_blocking(workspace.uri, is_listing=False)
            if blocking and self._is_hung(blocking, workspace):
                raise _hung(workspace)

    def _find_blocking(self, root: str, *, is_listing: bool) -> Sequence[_Access]:
        """Return the accesses of which one must end before another can begin. Empty if it can begin."""
        accesses = self._accesses.get(root, [])
        blocking = _full(accesses, self._max_accesses)
        if blocking or not is_listing:
            return blocking
        return _full([access for access in accesses if access.is_listing], self._max_listings)

    def _is_hung(self, accesses: Sequence[_Access], workspace: Workspace) -> bool:
        limit_seconds = self._hung_remote_seconds if workspace.is_remote_source else self._hung_seconds
        return self._monotonic() - min(access.progressed_seconds for access in accesses) >= limit_seconds


def _full(accesses: Sequence[_Access], places: int) -> Sequence[_Access]:
    """Return the accesses, or those of the calling principal, if there are too many of them for another one."""
    if len(accesses) >= places:
        return accesses
    principal = calling_principal.get()
    own = [access for access in accesses if principal is not None and access.principal == principal]
    return own if len(own) >= share_of_principal(places) else []


def _hung(workspace: Workspace) -> GatewayError:
    return storage_unavailable(f"workspace [{workspace.name}]")


file_systems = FileSystems()
"""The file systems of this process."""
