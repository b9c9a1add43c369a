"""Where a site keeps its records and its session locations.

Each store has the settings of the site, and shows what the site keeps from outside, with the administrator's
permissions.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence, Set
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.workspace.object_store.storages import give_credentials
from workspace.files.layout import Layout
from workspace.files.leases import FileLeases
from workspace.files.session_records import FileSessionRecords
from workspace.identifiers import SessionUuid
from workspace.kubernetes.connection import Connection
from workspace.kubernetes.leases import KubernetesLeases
from workspace.kubernetes.session_records import KubernetesSessionRecords
from workspace.leases import Leases
from workspace.object_store.addresses import ObjectAddress
from workspace.object_store.contents_cache import RELIST_SECONDS
from workspace.record_store import SessionRecords
from workspace.storage_paths import OWN_DIRECTORY

if TYPE_CHECKING:
    from tests.chaos.testbed import Testbed

KUBERNETES, FILES, S3 = "kubernetes", "files", "s3"
STORES = (KUBERNETES, FILES, S3)


class Store(ABC):
    """The records, leases and session locations of a site.

    Args:
        root: The directory of the temporary workspace, as seen from outside.

    Attributes:
        records: The session records.
        leases: The leases of the gateways.
        outdated_seconds: How old the reaper's view of session locations may be.
    """

    records: SessionRecords
    leases: Leases
    outdated_seconds = 0.0

    def __init__(self, root: Path) -> None:
        self.root = root

    @abstractmethod
    def settings(self) -> Mapping[str, Any]:
        """Return the settings that differ from those of the chart."""

    def environment(self) -> Mapping[str, str]:
        """Return the environment variables that gateways and reapers need."""
        return {}

    def locations(self) -> Set[SessionUuid]:
        """Return all entries of the workspace except Lodge's own directory."""
        return {SessionUuid(path.name) for path in self.root.iterdir()} - {OWN_DIRECTORY}

    def tables(self, session_uuid: SessionUuid) -> Set[str]:
        """Return the names of the directories in a session location."""
        location = self.root / session_uuid
        return {path.name for path in location.iterdir()} if location.exists() else set()

    def trash(self) -> Sequence[Path]:
        return list(Layout(self.root).trash.iterdir())


class OnKubernetes(Store):
    """Records and leases are objects of Kubernetes, and session locations are directories."""

    def __init__(self, root: Path, connection: Connection) -> None:
        super().__init__(root)
        self.records, self.leases = KubernetesSessionRecords(connection), KubernetesLeases(connection)

    def settings(self) -> Mapping[str, Any]:
        return {}


class InFiles(Store):
    """Records, leases and session locations are in one directory."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.records, self.leases = FileSessionRecords(root), FileLeases(root)

    def settings(self) -> Mapping[str, Any]:
        return {"records": "files"}


class InS3(OnKubernetes):
    """Records and leases are objects of Kubernetes, and session locations are keys in a bucket.

    The S3 server keeps each key as a file, and a prefix as a directory. A directory without a file can remain, for
    example while the server cannot write, but no key shows it.
    """

    outdated_seconds = RELIST_SECONDS

    def __init__(self, root: Path, connection: Connection, testbed: "Testbed") -> None:
        super().__init__(root, connection)
        assert testbed.s3 is not None
        self._raw = testbed.s3.raw

    def settings(self) -> Mapping[str, Any]:
        raw = self._raw
        address = ObjectAddress(self.root.parent.name, self.root.name, raw.endpoint, "http", raw.region)
        return {"workspace": {"dfs.tmp": address.uri}}

    def environment(self) -> Mapping[str, str]:
        variables: dict[str, str] = {}
        give_credentials(self._raw.access_key, self._raw.secret_key, variables)
        return variables

    def locations(self) -> Set[SessionUuid]:
        with suppress(FileNotFoundError):
            return {name for name in super().locations() if _has_files(self.root / name)}
        return set()

    def tables(self, session_uuid: SessionUuid) -> Set[str]:
        found = super().tables(session_uuid) - {".location"}
        return {name for name in found if _has_files(self.root / session_uuid / name)}

    def trash(self) -> Sequence[Path]:
        with suppress(FileNotFoundError):
            return super().trash()
        return []


def _has_files(directory: Path) -> bool:
    return any(path.is_file() for path in directory.rglob("*"))
