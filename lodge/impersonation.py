"""Checks that impersonation is possible, before ``lodge serve`` starts.

With impersonation, Lodge makes the OS user of a session's principal the owner of the session location
[temporary-tables §5.1.10.2]. If Lodge lacks a permission for this, it stops at startup with instructions for the
operator. Without these checks, a client's statement would fail later.
"""

import os
import secrets
import stat
from pathlib import Path

from lodge.command_errors import SettingError, StartError
from lodge.settings import ServeSettings
from workspace.files.layout import Layout
from workspace.files.private_files import make_private_directory, open_directory
from workspace.files.space_reserve import is_full
from workspace.workspaces import Workspaces

_OTHER_UID = 65534


def check_impersonation(settings: ServeSettings, workspaces: Workspaces) -> None:
    """Check that Lodge can change file owners in the default temporary workspace.

    Creates Lodge's own directories in the workspace if they are missing.

    Raises:
        SettingError: If no backend is set for any principal, or if the workspace is in an object store.
        StartError: If this process is not permitted to change the owner of files, or if other users cannot access
            their files.
    """
    if not settings.principal_backend:
        raise SettingError(
            "Impersonation needs a separate backend for each principal. Set the backends with --principal-backend."
        )
    if not workspaces.temporary.is_file_based:
        raise SettingError(
            f"Impersonation gives files to OS users, which object stores do not support. The workspace "
            f"[{workspaces.temporary.name}] must be file-based. Set a URI such as file:///data with --workspace."
        )
    root = workspaces.temporary.root
    _check_reachable(root)
    try:
        layout = Layout(root)
        layout.initialise()
        _give_directory_away(layout.trash)
    except OSError as error:
        if is_full(error):  # says nothing about permissions, and a gateway must start on a full disk
            return
        raise StartError(
            f"Impersonation needs permission to give files in [{root}] to other users: {error}. Run Lodge as root or "
            "with CAP_CHOWN, CAP_FOWNER and CAP_DAC_OVERRIDE, and use storage that does not restrict root."
        ) from None


def _check_reachable(root: Path) -> None:
    if root.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise StartError(
            f"With impersonation, only Lodge may write to the default temporary workspace [{root}], but other users "
            f"have write permission. Run: chmod 711 '{root}'"
        )
    for path in (root, *root.parents):
        if not path.stat().st_mode & stat.S_IXOTH:
            raise StartError(
                f"With impersonation, other users need access to their files in [{root}], but they may not pass "
                f"[{path}]. Run: chmod {'711' if path == root else 'o+x'} '{path}'"
            )


def _give_directory_away(trash: Path) -> None:
    """Check that a new directory in the trash can be given to another user.

    Lodge later does the same with session locations.
    """
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
