"""Opens the storage of session records, leases, session locations and remembered schemas."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lodge.errors import StartError
from lodge.settings import ReapSettings, ServeSettings
from lodge.workspace_settings import open_locations, open_schema_segments
from workspace.files.leases import FileLeases
from workspace.files.roots import home_of
from workspace.files.session_locations import FileSessionLocations
from workspace.files.session_records import FileSessionRecords
from workspace.leases import Leases
from workspace.locations import SessionLocations
from workspace.record_store import RecordsUnavailableError, SessionRecords
from workspace.root_identities import RootError
from workspace.schema_segments import SchemaSegments
from workspace.workspaces import Workspace, Workspaces

if TYPE_CHECKING:
    from workspace.kubernetes.connection import Connection


@dataclass(frozen=True, slots=True)
class Stores:
    """The storage that the gateways and reapers of one Lodge installation share.

    Attributes:
        records: The session records.
        leases: The leases of the gateway replicas.
        locations: The session locations. They are already initialised.
        schema_segments: The schemas of scanned files that the gateways share.
        kubernetes: The connection to the API server, or None if records and leases are stored in files.
    """

    records: SessionRecords
    leases: Leases
    locations: SessionLocations
    schema_segments: SchemaSegments
    kubernetes: "Connection | None"


def open_stores(settings: ReapSettings, workspaces: Workspaces) -> Stores:
    """Open the storage that the settings specify.

    Creates Lodge's own directories if they are missing.

    Raises:
        StartError: If the storage cannot be used.
    """
    workspace = workspaces.temporary
    try:
        if settings.records == "kubernetes":
            return _on_kubernetes(settings, workspace)
        return _on_files(workspace)
    except (RootError, RecordsUnavailableError) as error:
        raise StartError(f"The workspace [{workspace.name}] cannot be used: {error}") from None
    except OSError as error:
        raise StartError(
            f"The workspace [{workspace.name}] cannot be used: {error}. Check the storage of the workspace."
        ) from None


def _on_files(workspace: Workspace) -> Stores:
    locations = FileSessionLocations(workspace.root, home_of(workspace.root))
    locations.initialise()
    segments = open_schema_segments(workspace)
    return Stores(FileSessionRecords(locations.home), FileLeases(locations.home), locations, segments, None)


def _on_kubernetes(settings: ReapSettings, workspace: Workspace) -> Stores:
    from workspace.kubernetes.connection import KubernetesConfigError, connect  # noqa: PLC0415 - slow to load
    from workspace.kubernetes.leases import KubernetesLeases, PodIdentity  # noqa: PLC0415
    from workspace.kubernetes.root_ids import KubernetesRootIds  # noqa: PLC0415
    from workspace.kubernetes.session_records import KubernetesSessionRecords  # noqa: PLC0415

    try:
        connection = connect(settings.kubeconfig, settings.namespace, settings.instance)
    except KubernetesConfigError as error:
        raise StartError(str(error)) from None
    locations = open_locations(workspace, KubernetesRootIds(connection))
    locations.initialise()
    pod = None
    if isinstance(settings, ServeSettings) and settings.pod_name:
        pod = PodIdentity(settings.pod_name, settings.pod_uid or "", settings.node_name or "")
    leases = KubernetesLeases(connection, pod, settings.lease_duration.total_seconds())
    segments = open_schema_segments(workspace)
    return Stores(KubernetesSessionRecords(connection), leases, locations, segments, connection)
