"""The sources of scans: which files a scan may read.

A client can send a relation with Lodge's data source itself, and with any options. The backend reads it with the
permissions of Spark, like any other data source. The gateway must not act on such options: it has permissions of its
own, and reaches addresses that the client does not.
"""

from collections.abc import Mapping
from pathlib import Path

from engine.errors import ScanOptionError
from engine.scan_source import SOURCE_OPTIONS, ScanSource
from workspace.workspaces import Workspace, Workspaces

_OF_A_NEW_SCAN = frozenset({"workspace", "root", "path", "excluded", "mentioned"})


def source_in(workspaces: Workspaces, workspace: Workspace, path: str) -> ScanSource:
    """Return the source of a scan that a statement names.

    Args:
        workspaces: All workspaces.
        workspace: A workspace that is a directory, or from which statements only read.
        path: The path in the workspace.
    """
    if workspace.is_remote_source:
        return ScanSource(workspace.name, workspace.uri, path)
    excluded = tuple(str(root) for root in workspaces.temporary_roots if isinstance(root, Path))
    return ScanSource(workspace.name, str(workspace.root), path, excluded=excluded)


def is_of_gateway(options: Mapping[str, str], workspaces: Workspaces) -> bool:
    """Return whether options are those with which the gateway starts a scan of one of its workspaces."""
    if {key.lower() for key in options} & (SOURCE_OPTIONS - _OF_A_NEW_SCAN):
        return False
    try:
        source = ScanSource.from_options(options)
    except ScanOptionError:
        return False
    workspace = workspaces.by_name.get(source.workspace)
    if workspace is None or not (workspace.is_file_based or workspace.is_remote_source):
        return False
    return source == source_in(workspaces, workspace, source.path)
