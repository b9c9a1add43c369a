"""What must be so before session locations can be given to other OS users (seed 001, 5.1.10.2).

Why it exists: what is missing must stop the start with the way out, not come up later in some client's statement.
"""

import os
import secrets
import stat
from pathlib import Path

from lodge.errors import SettingError, StartError
from lodge.settings import ServeSettings
from workspace.files.layout import Layout
from workspace.files.private_files import make_private_directory, open_directory
from workspace.workspaces import Workspaces

_OTHER_UID = 65534


def check_impersonation(settings: ServeSettings, workspaces: Workspaces) -> None:
    """Makes Lodge's own directories in the default temporary workspace, if missing, and tries there.

    Raises:
        SettingError: No principal has a backend, or the workspace has no OS users.
        StartError: This process may not give files away, or other users cannot get to what is theirs.
    """
    if not settings.principal_backend:
        raise SettingError("impersonation needs a backend for each principal: name them with --principal-backend.")
    if not workspaces.temporary.is_file_based:
        raise SettingError(
            f"impersonation gives files to OS users, whom an object store does not know: workspace "
            f"[{workspaces.temporary.name}] must be file-based. Give it a URI such as file:///data."
        )
    root = workspaces.temporary.root
    _check_reachable(root)
    try:
        layout = Layout.below(root)
        layout.initialise()
        _try_to_give_away(layout.trash)
    except OSError as error:
        raise StartError(
            f"Impersonation needs the right to give files to other users in [{root}]: {error}. Run Lodge as root, or "
            "with CAP_CHOWN, CAP_FOWNER and CAP_DAC_OVERRIDE, on storage that lets root act as root."
        ) from None


def _check_reachable(root: Path) -> None:
    if root.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise StartError(
            f"With impersonation, nobody but Lodge may write in the default temporary workspace [{root}]. "
            f"Run: chmod 711 '{root}'"
        )
    for path in (root, *root.parents):
        if not path.stat().st_mode & stat.S_IXOTH:
            raise StartError(
                f"With impersonation, other users must get to their files in [{root}], but may not pass [{path}]. "
                f"Run: chmod {'711' if path == root else 'o+x'} '{path}'"
            )


def _try_to_give_away(trash: Path) -> None:
    """Does to a directory in the trash what will be done to session locations."""
    tried = trash / f"tried.{secrets.token_hex(8)}"
    make_private_directory(tried)
    try:
        with open_directory(tried) as descriptor:
            os.fchown(descriptor, _OTHER_UID, _OTHER_UID)
            os.fchmod(descriptor, 0o700)
        (tried / "inside").mkdir()
        (tried / "inside").rmdir()
    finally:
        tried.rmdir()
