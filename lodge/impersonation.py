"""Checks of the prerequisites of impersonation, before ``lodge serve`` starts [temporary-tables §5.1.10.2].

With impersonation, Lodge gives each session location to the OS user of its principal. A missing right stops the start
with an instruction, and does not fail a client's statement later.
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
    """Check that this process can give files in the default temporary workspace to other users.

    Creates Lodge's own directories there if they are missing.

    Raises:
        SettingError: If no principal has a backend, or the workspace is an object store.
        StartError: If this process may not give files away, or other users cannot reach their files.
    """
    if not settings.principal_backend:
        raise SettingError(
            "impersonation needs a backend for each principal. Name the backends with --principal-backend."
        )
    if not workspaces.temporary.is_file_based:
        raise SettingError(
            f"impersonation gives files to OS users, and an object store has none. The workspace "
            f"[{workspaces.temporary.name}] must be file-based. Give it a URI such as file:///data."
        )
    root = workspaces.temporary.root
    _check_reachable(root)
    try:
        layout = Layout(root)
        layout.initialise()
        _give_directory_away(layout.trash)
    except OSError as error:
        raise StartError(
            f"Impersonation needs the right to give files to other users in [{root}]: {error}. Run Lodge as root, or "
            "with CAP_CHOWN, CAP_FOWNER and CAP_DAC_OVERRIDE, on storage that lets root act as root."
        ) from None


def _check_reachable(root: Path) -> None:
    if root.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise StartError(
            f"With impersonation, only Lodge may write in the default temporary workspace [{root}]. "
            f"Run: chmod 711 '{root}'"
        )
    for path in (root, *root.parents):
        if not path.stat().st_mode & stat.S_IXOTH:
            raise StartError(
                f"With impersonation, other users must reach their files in [{root}], but may not pass [{path}]. "
                f"Run: chmod {'711' if path == root else 'o+x'} '{path}'"
            )


def _give_directory_away(trash: Path) -> None:
    """Give a directory in the trash to another user, as later the session locations."""
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
