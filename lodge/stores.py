"""Opens the storage of session records, leases, session locations and remembered schemas."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gateway.reloading.source_memory import KeptContents
from lodge.command_errors import StartError
from lodge.settings import ReapSettings, ServeSettings
from lodge.workspace_settings import open_locations, open_schema_segments
from workspace.files.leases import FileLeases
from workspace.files.processes import describe_own_process
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


def _do_nothing() -> None:
    return


@dataclass(frozen=True, slots=True)
class Stores:
    """The storage that the gateways and reapers of one Lodge installation share.

    Attributes:
        records: The session records.
        leases: The leases of the gateway replicas.
        locations: The session locations. They are already initialised.
        schema_segments: The schemas of scanned files that the gateways share.
        kubernetes: The connection to the API server, or None if records and leases are stored in files.
        keep_root_ids: Keeps the ids of the roots for the gateway that replaces this one. It must be called again after
            the workspace has moved.
    """

    records: SessionRecords
    leases: Leases
    locations: SessionLocations
    schema_segments: SchemaSegments
    kubernetes: "Connection | None"
    keep_root_ids: Callable[[], None] = _do_nothing


def open_stores(
    settings: ReapSettings, workspaces: Workspaces, root_ids: KeptContents[Mapping[str, str]] | None = None
) -> Stores:
    """Open the storage that the settings specify.

    Creates Lodge's own directories if they are missing.

    Args:
        settings: The settings of a gateway or of a reaper.
        workspaces: The configured workspaces.
        root_ids: Keeps the ids of roots for the gateway that replaces this one. It is needed if records are files.

    Raises:
        StartError: If the storage cannot be used.
    """
    workspace = workspaces.temporary
    try:
        if settings.records == "kubernetes":
            return _on_kubernetes(settings, workspace)
        return _on_files(workspace, root_ids, is_gateway=isinstance(settings, ServeSettings))
    except (RootError, RecordsUnavailableError) as error:
        raise StartError(f"The workspace [{workspace.name}] cannot be used: {error}") from None
    except OSError as error:
        raise StartError(
            f"The workspace [{workspace.name}] cannot be used: {error}. Check the storage of the workspace."
        ) from None


def _on_files(workspace: Workspace, kept: KeptContents[Mapping[str, str]] | None, *, is_gateway: bool) -> Stores:
    seen_ids = (None if kept is None else kept.read()) or {}
    locations = FileSessionLocations(workspace.root, home_of(workspace.root), seen_ids=seen_ids)
    home = locations.home
    locations.initialise()
    keep_root_ids = _do_nothing if kept is None else lambda: kept.write(locations.seen_ids)
    keep_root_ids()
    root_id = locations.seen_ids[str(home)]
    process = describe_own_process() if is_gateway else ""
    records, leases = FileSessionRecords(home, root_id=root_id), FileLeases(home, root_id, process)
    return Stores(records, leases, locations, open_schema_segments(workspace), None, keep_root_ids)


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
