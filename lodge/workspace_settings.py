"""Creates workspaces, session locations and remembered schemas from the settings.

If ``--workspace`` is not given, there are two workspaces: ``dfs`` is the current directory, and ``dfs.tmp`` is a
private directory for temporary tables.
"""

import os
from collections.abc import Mapping
from pathlib import Path

from lodge.command_errors import SettingError
from lodge.settings import ReapSettings, ServeSettings
from workspace.files.roots import home_of
from workspace.files.schema_segments import FileSchemaSegments
from workspace.files.session_locations import FileSessionLocations
from workspace.locations import SessionLocations
from workspace.root_identities import RootIds
from workspace.schema_segments import SchemaSegments
from workspace.workspaces import Workspace, Workspaces, WorkspaceSettingError

_ROOT_MODE = 0o700
ROOT_MODE_FOR_OTHERS = 0o711
"""Directory mode for a root in which each OS user can access only their own files."""


def workspaces_from(settings: ReapSettings) -> Workspaces:
    """Return the workspaces that are defined in the settings.

    If the settings do not define workspaces, the directory of ``dfs.tmp`` is created. Otherwise, the directories of
    all workspaces must exist.

    Raises:
        SettingError: If a workspace cannot be used.
    """
    serving = settings if isinstance(settings, ServeSettings) else None
    uris: Mapping[str, str] = settings.workspace or _default_uris(
        ROOT_MODE_FOR_OTHERS if serving is not None and serving.impersonation else _ROOT_MODE
    )
    writable = () if serving is None else serving.writable_workspace
    try:
        workspaces = Workspaces.from_uris(uris, settings.default_temporary_workspace, writable)
    except WorkspaceSettingError as error:
        raise SettingError(
            f"{error} See --workspace, --writable-workspace and --default-temporary-workspace."
        ) from None
    if not workspaces.temporary.is_file_based and settings.records != "kubernetes":
        raise SettingError(
            f"The workspace [{workspaces.temporary.name}] is in an object store, which cannot store session records. "
            "Set --records kubernetes, or give the workspace a URI such as file:///data."
        )
    return workspaces


def open_locations(workspace: Workspace, root_ids: RootIds | None = None) -> SessionLocations:
    """Return the session locations in a workspace. The caller must initialise them.

    Args:
        workspace: The default temporary workspace.
        root_ids: The store that records root ids. None if only the roots themselves store their ids.

    Raises:
        OSError: If the workspace cannot be read.
    """
    location = workspace.temporary_location
    if isinstance(location, Path):
        return FileSessionLocations(location, home_of(location), root_ids)

    from workspace.object_store.session_locations import ObjectSessionLocations  # noqa: PLC0415 - slow to load

    return ObjectSessionLocations(location, root_ids)


def open_schema_segments(workspace: Workspace) -> SchemaSegments:
    """Return the schemas of scanned files that are remembered in a workspace.

    Args:
        workspace: The default temporary workspace, whose session locations are initialised.
    """
    location = workspace.temporary_location
    if isinstance(location, Path):
        return FileSchemaSegments(location)

    from workspace.object_store.schema_segments import ObjectSchemaSegments  # noqa: PLC0415 - slow to load

    return ObjectSchemaSegments(location)


def _default_uris(mode: int) -> Mapping[str, str]:
    try:
        temporary = _state_home() / "lodge" / "dfs.tmp"
        temporary.mkdir(mode=mode, parents=True, exist_ok=True)
        return {"dfs": Path.cwd().as_uri(), "dfs.tmp": temporary.as_uri()}
    except (OSError, RuntimeError) as error:  # RuntimeError is raised for a user without a home directory
        raise SettingError(
            f"The default workspaces cannot be created: {error}. Define workspaces with --workspace, or set "
            "XDG_STATE_HOME."
        ) from None


def _state_home() -> Path:
    """Return XDG_STATE_HOME if it is an absolute path, and otherwise its default.

    The XDG Base Directory Specification requires that relative paths are ignored.
    """
    given = Path(os.environ.get("XDG_STATE_HOME", ""))
    return given if given.is_absolute() else Path.home() / ".local" / "state"
