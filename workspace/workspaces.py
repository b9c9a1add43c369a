"""Workspaces: the named places in storage that statements may refer to.

Why it exists: a name such as ``dfs.tmp`` in a statement must lead to exactly one directory, and a path below it never
out of it. Gateway and reaper read the same settings, so both check them here, before they start.

Guarantees:

1. Of several workspaces whose names begin a reference, the longest wins.
2. A configured name is case-sensitive (seed 001, 4.1). In a reference, the exact letter case wins; another letter case
   is understood if only one workspace can be meant, as Spark users expect of names.
3. :meth:`Workspaces.resolve` never returns a path outside of the workspace, nor one inside of a session location or of
   Lodge's own files, whatever links lie on the way at that moment. The engine checks again when it opens the file.

Source: seed 001, 4.1, 5.1.3, 5.4 and 5.5.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from workspace.layout import OWN_DIRECTORY
from workspace.names import is_uuid


class WorkspaceError(Exception):
    """Base of what is wrong with a workspace or a path in it; the message says what to do::

    WorkspaceError
    ├── WorkspaceSettingError  the settings name a workspace that cannot be used
    └── PathRefusedError       a path leads out of its workspace, or into Lodge's own files
    """


class WorkspaceSettingError(WorkspaceError):
    pass


class PathRefusedError(WorkspaceError):
    pass


@dataclass(frozen=True, slots=True)
class Workspace:
    """One workspace.

    Attributes:
        name: As configured, such as ``dfs.tmp``.
        root: Its directory, absolute and without links.
    """

    name: str
    root: Path

    @classmethod
    def from_uri(cls, name: str, uri: str) -> "Workspace":
        """Raises: WorkspaceSettingError if the URI is not of a file system, or its directory does not exist."""
        parts = urlsplit(uri)
        if parts.scheme != "file":
            raise WorkspaceSettingError(
                f"Workspace [{name}] must be file-based: give it a URI such as file:///data, not [{uri}]."
            )
        if parts.netloc not in {"", "localhost"} or not parts.path.startswith("/") or parts.query or parts.fragment:
            raise WorkspaceSettingError(
                f"Workspace [{name}] has the URI [{uri}]; give an absolute path, such as file:///data."
            )
        root = Path(unquote(parts.path))
        if not root.is_dir():
            raise WorkspaceSettingError(
                f"Workspace [{name}] does not exist: there is no directory [{root}]. Create it, or correct the URI."
            )
        return cls(name, root.resolve())


@dataclass(frozen=True, slots=True)
class Workspaces:
    """All workspaces of a gateway.

    Attributes:
        by_name: Every workspace by its name.
        temporary: The default temporary workspace; one of ``by_name``.
    """

    by_name: Mapping[str, Workspace]
    temporary: Workspace

    @classmethod
    def from_uris(cls, uris: Mapping[str, str], default_temporary_workspace: str) -> "Workspaces":
        """Checks what the settings say (seed 001, 4.1).

        Raises:
            WorkspaceSettingError: A workspace does not exist or is not file-based, or the default temporary one is not
                among them or not writable.
        """
        by_name = {name: Workspace.from_uri(name, uri) for name, uri in uris.items()}
        temporary = by_name.get(default_temporary_workspace)
        if temporary is None:
            known = ", ".join(f"[{name}]" for name in by_name)
            raise WorkspaceSettingError(
                f"The default temporary workspace [{default_temporary_workspace}] is not among the workspaces {known}; "
                "names are case-sensitive."
            )
        if not os.access(temporary.root, os.R_OK | os.W_OK | os.X_OK):
            raise WorkspaceSettingError(
                f"The default temporary workspace [{temporary.name}] is not writable: [{temporary.root}]. "
                "Give this user the right to write there, or name another workspace."
            )
        return cls(by_name, temporary)

    def match(self, parts: Sequence[str]) -> tuple[Workspace, int] | None:
        """The workspace that a name of several parts begins with, and how many of the parts name it."""
        for count in range(len(parts), 0, -1):
            name = ".".join(parts[:count])
            found = self.by_name.get(name) or self._match_in_any_case(name)
            if found is not None:
                return found, count
        return None

    def resolve(self, workspace: Workspace, path: str) -> Path:
        """The real path of a file or directory that a statement names.

        Args:
            workspace: Where it is.
            path: As in the statement, relative to the workspace's root.

        Raises:
            PathRefusedError: It leads out of the workspace, or into Lodge's own files.
            FileNotFoundError: It does not exist.
        """
        refused = f"Path [{path}] of workspace [{workspace.name}]"
        if not path or "\0" in path or path.startswith("/") or ".." in path.split("/"):
            raise PathRefusedError(f"{refused} is not allowed: give a path below the workspace, without '..'.")
        try:
            real = (workspace.root / path).resolve(strict=True)
        except FileNotFoundError:
            raise FileNotFoundError(f"{refused} does not exist.") from None
        except (OSError, RuntimeError) as error:  # a loop of links is a RuntimeError
            raise PathRefusedError(f"{refused} cannot be read: {error.__class__.__name__}.") from None
        if not real.is_relative_to(workspace.root):
            raise PathRefusedError(f"{refused} leads out of the workspace by a link.")
        if self._is_own(real):
            raise PathRefusedError(f"{refused} belongs to Lodge and cannot be read by its path.")
        return real

    def _is_own(self, real: Path) -> bool:
        root = self.temporary.root
        if not real.is_relative_to(root):
            return False
        inside = real.relative_to(root).parts
        return not inside or inside[0] == OWN_DIRECTORY or is_uuid(inside[0])

    def _match_in_any_case(self, name: str) -> Workspace | None:
        folded = name.casefold()
        found = [workspace for known, workspace in self.by_name.items() if known.casefold() == folded]
        return found[0] if len(found) == 1 else None
