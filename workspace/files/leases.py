"""Leases as files on the workspace's storage: the default where there is no Kubernetes.

One file for each replica, ``.lodge/leases/<replica id>``. Its content is the renewal mark: random, so that no
clock and no counter must survive a restart.

Guarantees:

1. A reader sees a whole mark; renewing puts a new file in the place of the old one by one rename.
2. Only names that are replica ids become paths; anything else raises ValueError. Other files are not listed.
3. A renewal that failed leaves the lease as it was, or renewed.
"""

import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from workspace.files.layout import Layout
from workspace.files.private_files import open_directory, read_private_file, write_private_file
from workspace.identifiers import check_replica_id, is_replica_id
from workspace.leases import RenewalMark
from workspace.records import RecordsUnavailableError, ReplicaId


class FileLeases:
    """Implements :class:`workspace.leases.Leases`.

    Args:
        root: The root of the default temporary workspace, initialised by
            :meth:`workspace.locations.SessionLocations.initialise`.
    """

    def __init__(self, root: Path) -> None:
        self._layout = Layout.below(root)

    def renew(self, replica: ReplicaId) -> None:
        lease = self._layout.leases / check_replica_id(replica)
        mark = secrets.token_hex(16)
        staged = self._layout.staging / mark
        with self._answering():
            with open_directory(self._layout.staging) as staging:
                write_private_file(mark, mark.encode("ascii"), staging)
            try:
                staged.replace(lease)
            except OSError:
                staged.unlink(missing_ok=True)
                raise

    def list(self) -> Mapping[ReplicaId, RenewalMark]:
        marks: dict[ReplicaId, RenewalMark] = {}
        with self._answering(), open_directory(self._layout.leases) as leases:
            for path in self._layout.leases.iterdir():
                if is_replica_id(path.name):
                    with suppress(FileNotFoundError):
                        mark = read_private_file(path.name, leases).decode("ascii", "replace")
                        marks[ReplicaId(path.name)] = RenewalMark(mark)
        return marks

    def delete(self, replica: ReplicaId) -> None:
        lease = self._layout.leases / check_replica_id(replica)
        with self._answering():
            lease.unlink(missing_ok=True)
            self._layout.leases.lstat()

    @contextmanager
    def _answering(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise RecordsUnavailableError(
                None, f"The leases in {self._layout.leases} cannot be used now: {error}. Check the storage."
            ) from error
