"""From settings to workspaces, and from these to session locations; with none given, the embedded default's two."""

import os
from collections.abc import Mapping
from pathlib import Path

from lodge.errors import SettingError
from lodge.settings import ReapSettings, ServeSettings
from workspace.files.roots import home_of
from workspace.files.session_locations import FileSessionLocations
from workspace.locations import SessionLocations
from workspace.root_identities import RootIds
from workspace.workspaces import Workspace, Workspaces, WorkspaceSettingError

_ROOT_MODE = 0o700
ROOT_MODE_FOR_OTHERS = 0o711
"""Lets other OS users get to what is theirs in a root, and see nothing else."""


def workspaces_from(settings: ReapSettings) -> Workspaces:
    """Only the default workspace for temporary tables is made if it is missing; what a user names must exist.

    Raises: SettingError
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
            f"Workspace [{workspaces.temporary.name}] is in an object store, which cannot keep session records: "
            "give --records kubernetes, or a URI such as file:///data."
        )
    return workspaces


def open_locations(workspace: Workspace, root_ids: RootIds | None = None) -> SessionLocations:
    """The session locations of the default workspace for temporary tables, to be initialised by the caller.

    Args:
        workspace: That workspace.
        root_ids: Where ids of roots are recorded; None if they are on the roots' own storage only.

    Raises: OSError
    """
    if isinstance(workspace.location, Path):
        return FileSessionLocations(workspace.location, home_of(workspace.location), root_ids)

    from workspace.object_store.session_locations import ObjectSessionLocations  # noqa: PLC0415 - slow to load, and seldom needed

    return ObjectSessionLocations(workspace.location, root_ids)


def _default_uris(mode: int) -> Mapping[str, str]:
    try:
        temporary = _state_home() / "lodge" / "dfs.tmp"
        temporary.mkdir(mode=mode, parents=True, exist_ok=True)
        return {"dfs": Path.cwd().as_uri(), "dfs.tmp": temporary.as_uri()}
    except (OSError, RuntimeError) as error:  # a user without a home directory is a RuntimeError
        raise SettingError(
            f"The default workspaces cannot be made: {error}. Name them with --workspace, or set XDG_STATE_HOME."
        ) from None


def _state_home() -> Path:
    """A relative XDG_STATE_HOME does not count, as the XDG Base Directory Specification says."""
    given = Path(os.environ.get("XDG_STATE_HOME", ""))
    return given if given.is_absolute() else Path.home() / ".local" / "state"
