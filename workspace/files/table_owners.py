"""The owners of permanent tables, as private files.

A permanent table is in a workspace in which clients can write files, so its own directory cannot prove who created it.
The owner is therefore stored in ``.lodge`` of the home, in a directory that only Lodge can read and write. The table
description contains the random id of the owner's file.

Guarantees:

1. An owner is written before its table becomes visible, and is never changed.
2. An owner counts only for the table that it names. A description that was copied to another table has no owner.

Not guaranteed:

- If Spark runs as the same OS user as Lodge, code in a UDF can read and write the files of owners.
- If a process is killed between two steps, an owner without a table can remain. It has no effect.
"""

from pathlib import Path

from workspace.files.layout import Layout
from workspace.files.private_files import (
    make_private_directory,
    open_directory,
    read_private_file,
    remove_file,
    sync_directory,
    write_private_file,
)
from workspace.files.roots import home_of
from workspace.identifiers import is_uuid
from workspace.table_owners import TableOwner


class TableOwners:
    """The owners of the permanent tables of a Lodge installation.

    Args:
        root: A root of the installation. The owners are in its home.
    """

    def __init__(self, root: Path) -> None:
        self._directory = Layout(home_of(root)).table_owners

    def write(self, owner_id: str, owner: TableOwner) -> None:
        """Store the owner of a new table.

        Args:
            owner_id: A new random UUID.
            owner: The owner.

        Raises:
            FileExistsError: If the id is already used.
            OSError: If the storage fails. In this case, no file remains.
        """
        make_private_directory(self._directory)
        with open_directory(self._directory) as directory:
            try:
                write_private_file(_file_name(owner_id), owner.encode(), directory)
            except FileExistsError:
                raise
            except OSError:  # the disk may be full
                remove_file(_file_name(owner_id), directory)
                raise
        sync_directory(self._directory)

    def read(self, owner_id: str, workspace: str, table: str) -> TableOwner | None:
        """Return the owner of a table.

        Returns:
            The owner. None if no owner of this table has the id.

        Raises:
            OSError: If the storage fails.
        """
        if not is_uuid(owner_id):
            return None
        try:
            with open_directory(self._directory) as directory:
                owner = TableOwner.decode(read_private_file(_file_name(owner_id), directory))
        except (FileNotFoundError, ValueError):
            return None
        return owner if (owner.workspace, owner.table) == (workspace, table) else None

    def remove(self, owner_id: str) -> None:
        """Remove an owner, if it exists.

        Raises:
            OSError: If the storage fails.
        """
        if is_uuid(owner_id) and self._directory.is_dir():
            with open_directory(self._directory) as directory:
                remove_file(_file_name(owner_id), directory)


def _file_name(owner_id: str) -> str:
    if not is_uuid(owner_id):
        raise ValueError("The id of an owner must be a UUID.")
    return f"{owner_id}.json"
