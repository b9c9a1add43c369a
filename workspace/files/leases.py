"""Leases as files in the workspace. This is the default without Kubernetes.

Each replica has one file, ``.lodge/leases/<replica id>``, which contains the renewal mark. The mark is random, so no
clock or counter needs to be preserved after a restart.

Guarantees:

1. A reader always gets a complete renewal mark, because a renewal replaces the file with a single rename.
2. Only valid replica ids are used in paths. Other ids raise ValueError, and files with other names are not listed.
3. After a failed renewal, the lease is either unchanged or renewed.
"""

import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from workspace.files.layout import Layout
from workspace.files.private_files import open_directory, read_private_file, write_private_file
from workspace.identifiers import ReplicaId, check_replica_id, is_replica_id
from workspace.leases import RenewalMark
from workspace.record_store import RecordsUnavailableError


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
        lease = self._layout.leases / check_replica_id(replica)
        mark = secrets.token_hex(16)
        staged = self._layout.staging / mark
        with self._convert_errors():
            with open_directory(self._layout.staging) as staging:
                write_private_file(mark, mark.encode("ascii"), staging)
            try:
                staged.replace(lease)
            except OSError:
                staged.unlink(missing_ok=True)
                raise

    def list(self) -> Mapping[ReplicaId, RenewalMark]:
        """Return the renewal mark of each lease, by replica."""
        marks: dict[ReplicaId, RenewalMark] = {}
        with self._convert_errors(), open_directory(self._layout.leases) as leases:
            for path in self._layout.leases.iterdir():
                if is_replica_id(path.name):
                    with suppress(FileNotFoundError):
                        mark = read_private_file(path.name, leases).decode("ascii", "replace")
                        marks[ReplicaId(path.name)] = RenewalMark(mark)
        return marks

    def delete(self, replica: ReplicaId) -> None:
        """Delete the lease of a replica, if it exists."""
        lease = self._layout.leases / check_replica_id(replica)
        with self._convert_errors():
            lease.unlink(missing_ok=True)
            self._layout.leases.lstat()

    @contextmanager
    def _convert_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise RecordsUnavailableError(
                None, f"The leases in [{self._layout.leases}] cannot be used now: {error}. Check the storage."
            ) from error
