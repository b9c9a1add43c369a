"""Leases as files in the workspace. This is the default without Kubernetes.

Each replica has one file, ``.lodge/leases/<replica id>``, which contains the renewal mark. The mark is random, so no
clock or counter needs to be preserved after a restart. All marks have the same length, so a renewal overwrites the mark
and needs no space: a full disk does not end sessions. If the file cannot be overwritten, for example because of a
damaged block, a renewal replaces it by a new file. A stopped lease has a second file,
``.lodge/leases/stopped_<replica id>``. The name of this file is not a replica id, and no renewal changes the file.
Therefore, a renewal that arrives late cannot revive a stopped lease.

Guarantees:

1. A reader gets a complete renewal mark, or during a renewal parts of two. An observer takes these for one renewal
   more, which can only delay the moment at which the lease is lost.
2. Only valid replica ids are used in paths. Other ids raise ValueError, and files with other names are not listed.
3. After a failed renewal, the lease is either unchanged or renewed.
4. After a failed stop, the lease is either unchanged or stopped.
5. A renewal of an existing lease allocates no space. On a full disk, a new lease and a stop use the space of
   :mod:`workspace.files.space_reserve`.
6. :meth:`FileLeases.check_writable` fails if a new record of usual size cannot be written. It leaves no file, because
   a root with files for leases never becomes part of another home (:mod:`workspace.files.roots`).
7. A renewal succeeds also if the file of the lease cannot be overwritten, provided that it can be replaced.
8. The renewal mark of a gateway also identifies its process (:func:`running_replicas`).
9. If the storage was replaced by other storage, every operation fails (:mod:`workspace.files.home_identity`).

Not guaranteed:

- File systems that copy on write may need space for guarantee 5.
- A file that can be neither overwritten nor replaced, for example because it is immutable, makes all renewals of its
  replica fail. If other files can be written, the replica counts as lost.
"""

import secrets
from collections.abc import Iterator, Mapping, Set
from contextlib import contextmanager, suppress
from pathlib import Path

from workspace.files.home_identity import HomeIdentity
from workspace.files.layout import Layout
from workspace.files.private_files import (
    file_exists,
    open_directory,
    overwrite_private_file,
    read_private_file,
    remove_file,
    scan_directory,
    write_private_file,
)
from workspace.files.processes import is_running
from workspace.files.space_reserve import SpaceReserve, is_full
from workspace.identifiers import ReplicaId, check_replica_id, is_replica_id
from workspace.leases import STOPPED, LeaseStoppedError, RenewalMark
from workspace.record_store import RecordsUnavailableError

_STOPPED_PREFIX = "stopped_"
_CHECK_BYTES = 16 * 1024
"""The size of a record with many tables."""


class FileLeases:
    """An implementation of :class:`workspace.leases.Leases` on a file system.

    Args:
        root: The home of the workspace. It must already be initialised with
            :meth:`workspace.locations.SessionLocations.initialise`.
        root_id: The id of the home. None means the id that is found first.
        process: The process that renews a lease (:mod:`workspace.files.processes`). Empty if it is not known.
    """

    def __init__(self, root: Path, root_id: str | None = None, process: str = "") -> None:
        self._layout = Layout(root)
        self._home = HomeIdentity(self._layout, root_id)
        self._reserve = SpaceReserve(self._layout.reserve)
        self._process = process

    def renew(self, replica: ReplicaId) -> None:
        """Create the lease of a replica or, if it exists, change its renewal mark."""
        check_replica_id(replica)
        with self._convert_errors(), open_directory(self._layout.leases) as leases:
            mark = f"{secrets.token_hex(16)} {self._process}".rstrip()
            if not _overwrite(replica, mark, leases):
                self._write(replica, mark)
            # Checked after the change: a renewal that succeeds was complete before the lease was stopped.
            is_stopped = file_exists(_STOPPED_PREFIX + replica, leases)
        self._reserve.refill()
        if is_stopped:
            raise LeaseStoppedError(replica)

    def stop(self, replica: ReplicaId) -> None:
        """Mark the lease of a replica that has ended."""
        check_replica_id(replica)
        with self._convert_errors():
            self._write(_STOPPED_PREFIX + replica, STOPPED)

    def list(self) -> Mapping[ReplicaId, RenewalMark]:
        """Return the renewal mark of each lease, by replica."""
        marks: dict[ReplicaId, RenewalMark] = {}
        with self._convert_errors(), open_directory(self._layout.leases) as leases:
            names = {entry.name for entry in scan_directory(leases)}
            for name in filter(is_replica_id, names):
                with suppress(FileNotFoundError):
                    mark = read_private_file(name, leases).decode("ascii", "replace")
                    marks[ReplicaId(name)] = RenewalMark(mark)
        stopped = {name.removeprefix(_STOPPED_PREFIX) for name in names if name.startswith(_STOPPED_PREFIX)}
        return marks | {ReplicaId(name): STOPPED for name in stopped if is_replica_id(name)}

    def delete(self, replica: ReplicaId) -> None:
        """Delete the lease of a replica, if it exists."""
        check_replica_id(replica)
        with self._convert_errors():
            for name in (replica, _STOPPED_PREFIX + replica):  # the lease stays stopped until both files are removed
                (self._layout.leases / name).unlink(missing_ok=True)
            self._layout.leases.lstat()

    def check_writable(self) -> None:
        """Write a file as a new record does, and remove it."""
        name = secrets.token_hex(16)
        with self._convert_errors(), open_directory(self._layout.staging) as staging:
            write_private_file(name, b"\0" * _CHECK_BYTES, staging)
            remove_file(name, staging)

    def _write(self, name: str, content: str) -> None:
        """Create or replace a file with a single rename."""
        staged_name = secrets.token_hex(16)
        staged = self._layout.staging / staged_name
        try:
            with open_directory(self._layout.staging) as staging:
                self._reserve.write(staged_name, content.encode("ascii"), staging)
            staged.replace(self._layout.leases / name)
        except OSError:
            staged.unlink(missing_ok=True)
            raise

    @contextmanager
    def _convert_errors(self) -> Iterator[None]:
        try:
            with self._home.checked():
                yield
        except OSError as error:
            raise RecordsUnavailableError(
                None, f"The leases in [{self._layout.leases}] cannot be used now: {error}. Check the storage."
            ) from error


def running_replicas(leases: Mapping[ReplicaId, RenewalMark]) -> Set[ReplicaId]:
    """Return the replicas whose process certainly runs, although they may not renew their leases.

    Args:
        leases: The renewal marks, by replica.
    """
    return {replica for replica, mark in leases.items() if is_running(mark.partition(" ")[2])}


def _overwrite(name: str, content: str, leases: int) -> bool:
    """Overwrite the file of a lease. Return False if it must be replaced instead.

    Raises:
        OSError: If there is no space. A new file needs more of it.
    """
    try:
        return overwrite_private_file(name, content.encode("ascii"), leases)
    except OSError as error:
        if is_full(error):
            raise
        return False
