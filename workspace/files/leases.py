"""Leases as files in the workspace. This is the default without Kubernetes.

Each replica has one file, ``.lodge/leases/<replica id>``, which contains the renewal mark. The mark is random, so no
clock or counter needs to be preserved after a restart. A stopped lease has a second file,
``.lodge/leases/stopped_<replica id>``. The name of this file is not a replica id, and no renewal changes the file.
Therefore, a renewal that arrives late cannot revive a stopped lease.

Guarantees:

1. A reader always gets a complete renewal mark, because a renewal replaces the file with a single rename.
2. Only valid replica ids are used in paths. Other ids raise ValueError, and files with other names are not listed.
3. After a failed renewal, the lease is either unchanged or renewed.
4. After a failed stop, the lease is either unchanged or stopped.
"""

import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from workspace.files.layout import Layout
from workspace.files.private_files import (
    file_exists,
    open_directory,
    read_private_file,
    scan_directory,
    write_private_file,
)
from workspace.identifiers import ReplicaId, check_replica_id, is_replica_id
from workspace.leases import STOPPED, LeaseStoppedError, RenewalMark
from workspace.record_store import RecordsUnavailableError

_STOPPED_PREFIX = "stopped_"


class FileLeases:
    """An implementation of :class:`workspace.leases.Leases` on a file system.

    Args:
        root: The home of the workspace. It must already be initialised with
            :meth:`workspace.locations.SessionLocations.initialise`.
    """

    def __init__(self, root: Path) -> None:
        self._layout = Layout(root)

    def renew(self, replica: ReplicaId) -> None:
        """Create the lease of a replica or, if it exists, change its renewal mark."""
        check_replica_id(replica)
        with self._convert_errors():
            self._write(replica, secrets.token_hex(16))
            # Checked after the change: a renewal that succeeds was complete before the lease was stopped.
            with open_directory(self._layout.leases) as leases:
                is_stopped = file_exists(_STOPPED_PREFIX + replica, leases)
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

    def _write(self, name: str, content: str) -> None:
        """Create or replace a file with a single rename."""
        staged_name = secrets.token_hex(16)
        staged = self._layout.staging / staged_name
        with open_directory(self._layout.staging) as staging:
            write_private_file(staged_name, content.encode("ascii"), staging)
        try:
            staged.replace(self._layout.leases / name)
        except OSError:
            staged.unlink(missing_ok=True)
            raise

    @contextmanager
    def _convert_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise RecordsUnavailableError(
                None, f"The leases in [{self._layout.leases}] cannot be used now: {error}. Check the storage."
            ) from error
