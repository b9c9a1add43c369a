"""Directories of permanent tables: publishing and removing them in a workspace.

Guarantees:

1. Directories have mode 0775 and files have mode 0644 [temporary-tables §5.2].
2. A table appears either completely or not at all, and never under a name that is already used.
3. A directory is removed only if it contains a Lodge table description. The removed table is the one that was checked,
   even if another table gets its name at the same time.
4. Only files that belong to the new table get another mode. Hard links and files of other users are refused.
5. A table name always refers to a direct entry of the workspace directory. Symbolic links are never followed.

Not guaranteed:

- Symbolic links that another process creates while a statement runs are not always detected.
- Files that belong to another user than the gateway may have other modes, because only the owner can change modes.
"""

import errno
import os
import shutil
import uuid
from collections.abc import Callable
from pathlib import Path

from gateway.blocking_work.file_systems import file_systems
from gateway.errors import GatewayError
from gateway.stored_tables.table_descriptions import DESCRIPTION_FILE, GLOB, TableDescription
from gateway.tables.table_errors import AlreadyExistsError
from workspace.files.table_files import ForeignFileError, copy_table, make_public, write_public_file
from workspace.identifiers import is_uuid
from workspace.workspaces import Workspace

_MAX_NAME_BYTES = 199


class Publication:
    """The publication of a directory as a permanent table.

    If a statement is interrupted during the publication, ``is_done`` tells whether the table exists.

    Args:
        workspace: The workspace of the table.
        name: The name of the table.
        description: The table description.

    Raises:
        GatewayError: If the description is too large.
    """

    def __init__(self, workspace: Workspace, name: str, description: TableDescription) -> None:
        self._workspace = workspace
        self._name = name
        self._description = description.encode()
        self.is_done = False

    def run(self, source: Path) -> None:
        """Move a directory into the workspace.

        Args:
            source: The directory that contains the files of the table.

        Raises:
            GatewayError: If the name is already used, or the directory contains a file that may not belong to the
                table.
            OSError: If the storage fails.
        """
        try:
            make_public(source)
        except ForeignFileError as error:
            raise GatewayError(
                "LODGE_PATH_REFUSED",
                "42501",
                f"Table [{self._name}] cannot be created in workspace [{self._workspace.name}], because its directory "
                f"contains a hard link or a file of another user: [{error.filename}]. Run the statement again. Nothing "
                "except the statement may write to the directory.",
            ) from error
        write_public_file(DESCRIPTION_FILE, self._description, source)
        try:
            _move(source, self._workspace.root / self._name)
        except OSError as error:
            if error.errno in {errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR}:
                raise AlreadyExistsError(self._name, self._workspace.name) from error
            raise
        self.is_done = True


def is_name_used(workspace: Workspace, name: str) -> bool:
    """Return whether a workspace contains an entry with the given table name.

    Return False if a table cannot have this name.
    """
    if not workspace.is_file_based or not _is_table_name(name):
        return False
    with file_systems.access(workspace):
        return os.path.lexists(workspace.root / name)


def check_table_name(workspace: Workspace, name: str) -> None:
    """Check that a permanent table can have the given name.

    Raises:
        GatewayError: If the name is reserved, too long or not a plain file name.
    """
    if not _is_table_name(name):
        raise GatewayError(
            "LODGE_TABLE_NAME",
            "42602",
            f"[{name}] cannot be the name of a table in workspace [{workspace.name}]. Use a name that contains none of "
            f"/ * ? [ ] {{ }} \\, does not begin with [.] or [_], and has at most {_MAX_NAME_BYTES} bytes.",
        )


def remove_table(workspace: Workspace, name: str, check: Callable[[TableDescription], None]) -> TableDescription | None:
    """Remove the directory of a permanent table.

    Args:
        workspace: The workspace of the table.
        name: The name of the table.
        check: A function that raises an error if the table must not be removed.

    Returns:
        The table description. None if the directory was empty.

    Raises:
        GatewayError: If the directory does not contain a table description, or the check fails.
        OSError: If the storage fails.
    """
    path = workspace.root / name
    if path.is_dir() and not path.is_symlink() and not any(path.iterdir()):
        path.rmdir()  # empty directory: left over if the creation was killed in its last step
        return None
    description = None if path.is_symlink() else TableDescription.read(path)
    if description is None:
        raise GatewayError(
            "LODGE_NOT_A_TABLE",
            "42809",
            f"DROP TABLE cannot remove [{name}] in workspace [{workspace.name}], because CREATE TABLE did not create "
            "it. Remove the files yourself.",
        )
    check(description)
    hidden = workspace.root / f".{name}.{uuid.uuid4().hex}"
    path.replace(hidden)
    if TableDescription.read(hidden) != description:  # another table got the name after the check
        hidden.replace(path)
        return remove_table(workspace, name, check)
    shutil.rmtree(hidden)
    return description


def _move(source: Path, target: Path) -> None:
    """Rename a directory, or copy it if the target is on another file system."""
    target.mkdir()  # reserves the name: mkdir succeeds for one statement only, and rename replaces an empty directory
    try:
        source.replace(target)
    except OSError as error:
        target.rmdir()
        if error.errno != errno.EXDEV:
            raise
        copy = target.parent / f".{target.name}.{uuid.uuid4().hex}"
        try:
            copy_table(source, copy)
            target.mkdir()
            copy.replace(target)
        finally:
            shutil.rmtree(copy, ignore_errors=True)


def _is_table_name(name: str) -> bool:
    is_reserved = name.startswith((".", "_")) or is_uuid(name) or GLOB.search(name) is not None
    return bool(name) and not set(name) & {"/", "\0"} and not is_reserved and len(name.encode()) <= _MAX_NAME_BYTES
