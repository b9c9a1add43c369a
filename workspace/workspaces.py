"""Workspaces: the named places in storage that statements may use.

A name such as ``dfs.tmp`` in a statement must lead to exactly one directory, and a path in it never outside that
directory. Gateway and reaper read the same settings, so both check them with this module before they start.

Guarantees:

1. If several workspace names match the start of a reference, the longest wins.
2. A configured name is case-sensitive [temporary-tables §4.1]. In a reference, the exact letter case wins. Another
   letter case matches if only one workspace can be meant, as Spark users expect of names.
3. :meth:`Workspaces.resolve` never returns a path outside the workspace, in a session location, or in Lodge's own
   files, even if links are on the way. The engine checks again when it opens the file.

Source: [temporary-tables §4.1], [temporary-tables §5.1.3], [temporary-tables §5.4], [temporary-tables §5.5].
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import unquote, urlsplit

from workspace.identifiers import is_uuid
from workspace.name_comparison import comparable_name
from workspace.object_store.addresses import ObjectAddress, ObjectAddressError
from workspace.storage_paths import OWN_DIRECTORY, StoragePath


class WorkspaceError(Exception):
    """The base class of the errors of workspaces and their paths.

    The message says what to do.

    ::

        WorkspaceError
        ├── WorkspaceSettingError  the settings name a workspace that cannot be used
        ├── NotFileBasedError      a workspace has no directory, but is in an object store
        └── PathRefusedError       a path leads out of its workspace, or into Lodge's own files
    """


class WorkspaceSettingError(WorkspaceError):
    """The settings name a workspace that cannot be used."""


class NotFileBasedError(WorkspaceError):
    """A workspace has no directory, but is in an object store."""


class PathRefusedError(WorkspaceError):
    """A path leads out of its workspace, or into Lodge's own files."""


@dataclass(frozen=True, slots=True)
class Workspace:
    """A workspace.

    Attributes:
        name: The configured name, such as ``dfs.tmp``.
        location: The directory, absolute and without links; or a prefix in an object store, for the default temporary
            workspace only.
        is_writable: Whether statements may create and drop tables in it.
    """

    name: str
    location: Path | ObjectAddress
    is_writable: bool = False

    @property
    def is_file_based(self) -> bool:
        """Whether the workspace is a directory."""
        return isinstance(self.location, Path)

    @property
    def root(self) -> Path:
        """The directory of the workspace.

        Raises:
            NotFileBasedError: If the workspace is in an object store.
        """
        if isinstance(self.location, Path):
            return self.location
        raise NotFileBasedError(f"Workspace [{self.name}] is in an object store, and has no files of its own.")

    @property
    def storage_path(self) -> StoragePath:
        """The directory, or the URI without its options; the form for people."""
        return self.location if isinstance(self.location, Path) else self.location.storage_path

    @property
    def uri(self) -> str:
        """The complete URI, in the form of the settings."""
        return self.location.as_uri() if isinstance(self.location, Path) else self.location.uri

    @classmethod
    def from_uri(cls, name: str, uri: str, *, is_writable: bool = False, is_temporary: bool = False) -> "Workspace":
        """Create a workspace from the URI of the settings.

        Args:
            name: The name of the workspace.
            uri: A ``file:`` URI. For the default temporary workspace, an ``s3:`` URI is valid too.
            is_writable: Whether statements may create and drop tables in it.
            is_temporary: Whether it is the default temporary workspace, which is always writable.

        Raises:
            WorkspaceSettingError: If the URI is invalid, or its directory is missing or not writable as required.
        """
        if uri.partition(":")[0].lower() != "s3":
            return cls(
                name, _directory_of(name, uri, is_writable=is_writable or is_temporary), is_writable or is_temporary
            )
        if not is_temporary:
            raise WorkspaceSettingError(
                f"Workspace [{name}] must be file-based: only the default workspace for temporary tables may be in an "
                "object store. Give it a URI such as file:///data."
            )
        try:
            return cls(name, ObjectAddress.from_uri(uri), is_writable=True)
        except ObjectAddressError as error:
            raise WorkspaceSettingError(f"The URI of workspace [{name}] {error}.") from None


@dataclass(frozen=True, slots=True)
class Workspaces:
    """All workspaces of a gateway.

    Attributes:
        by_name: Every workspace by its name.
        temporary: The default temporary workspace; one of ``by_name``, and always writable.
        former_roots: The former roots of the default temporary workspace, which may still contain session locations.
    """

    by_name: Mapping[str, Workspace]
    temporary: Workspace
    former_roots: tuple[StoragePath, ...] = ()

    @classmethod
    def from_uris(
        cls, uris: Mapping[str, str], default_temporary_workspace: str, writable: Sequence[str] = ()
    ) -> "Workspaces":
        """Create the workspaces of the settings [temporary-tables §4.1].

        Args:
            uris: The URI of each workspace.
            default_temporary_workspace: The name of the workspace for temporary tables.
            writable: The names of other workspaces that statements may write to.

        Raises:
            WorkspaceSettingError: If a name is unknown, or a workspace cannot be used as required.
        """
        known = ", ".join(f"[{name}]" for name in uris)
        required = {"default temporary": [default_temporary_workspace], "writable": writable}
        for kind, names in required.items():
            for name in names:
                if name not in uris:
                    raise WorkspaceSettingError(
                        f"The {kind} workspace [{name}] is not among the workspaces {known}. Names are case-sensitive."
                    )
        by_name = {
            name: Workspace.from_uri(
                name, uri, is_writable=name in writable, is_temporary=name == default_temporary_workspace
            )
            for name, uri in uris.items()
        }
        return cls(by_name, by_name[default_temporary_workspace])

    @property
    def temporary_roots(self) -> tuple[StoragePath, ...]:
        """All roots that may contain session locations, the current one first."""
        return (self.temporary.storage_path, *self.former_roots)

    def with_former_roots(self, roots: Sequence[StoragePath]) -> "Workspaces":
        """Return the same workspaces with other former roots.

        The current root is left out of them.
        """
        return replace(self, former_roots=tuple(root for root in roots if root != self.temporary.storage_path))

    def match(self, parts: Sequence[str]) -> tuple[Workspace, int] | None:
        """Return the workspace at the start of a multipart name.

        The result includes how many parts name it; it is None if there is no such workspace.
        """
        for count in range(len(parts), 0, -1):
            name = ".".join(parts[:count])
            found = self.by_name.get(name) or self._match_in_any_case(name)
            if found is not None:
                return found, count
        return None

    def resolve(self, workspace: Workspace, path: str) -> Path:
        """Return the real path of a file or directory that a statement names.

        Args:
            workspace: The workspace that contains it.
            path: The path in the statement, relative to the root of the workspace.

        Raises:
            PathRefusedError: If the path leads out of the workspace, or into Lodge's own files.
            FileNotFoundError: If the path does not exist.
        """
        shown = f"Path [{path}] of workspace [{workspace.name}]"
        if not path or "\0" in path or path.startswith("/") or ".." in path.split("/"):
            raise PathRefusedError(f"{shown} is not allowed: give a path below the workspace, without '..'.")
        if not workspace.is_file_based:
            raise FileNotFoundError(f"{shown} does not exist: an object store has temporary tables only.")
        try:
            real = (workspace.root / path).resolve(strict=True)
        except FileNotFoundError:
            raise FileNotFoundError(f"{shown} does not exist.") from None
        except (OSError, RuntimeError) as error:  # a loop of links is a RuntimeError
            raise PathRefusedError(f"{shown} cannot be read: {error.__class__.__name__}.") from None
        if not real.is_relative_to(workspace.root):
            raise PathRefusedError(f"{shown} leads out of the workspace by a link.")
        if self._is_own(real):
            raise PathRefusedError(f"{shown} belongs to Lodge and cannot be read by its path.")
        return real

    def _is_own(self, real: Path) -> bool:
        roots = (root for root in self.temporary_roots if isinstance(root, Path) and real.is_relative_to(root))
        below_roots = (real.relative_to(root).parts for root in roots)
        return any(not parts or parts[0] == OWN_DIRECTORY or is_uuid(parts[0]) for parts in below_roots)

    def _match_in_any_case(self, name: str) -> Workspace | None:
        wanted = comparable_name(name)
        found = [workspace for known, workspace in self.by_name.items() if comparable_name(known) == wanted]
        return found[0] if len(found) == 1 else None


def _directory_of(name: str, uri: str, *, is_writable: bool) -> Path:
    try:
        parts = urlsplit(uri)
    except ValueError as error:
        raise WorkspaceSettingError(
            f"Workspace [{name}] has an invalid URI ({error}). Give it a URI such as file:///data."
        ) from None
    if parts.scheme != "file":
        shown = f"{parts.scheme}://..." if "@" in uri else uri  # what is before the @ may be a secret
        raise WorkspaceSettingError(
            f"Workspace [{name}] must be file-based: give it a URI such as file:///data, not [{shown}]."
        )
    if parts.netloc not in {"", "localhost"} or not parts.path.startswith("/") or parts.query or parts.fragment:
        raise WorkspaceSettingError(
            f"Workspace [{name}] has the URI [{uri}]. Give it an absolute path, such as file:///data."
        )
    root = Path(unquote(parts.path))
    if not root.is_dir():
        raise WorkspaceSettingError(
            f"Workspace [{name}] does not exist: there is no directory [{root}]. Create it, or correct the URI."
        )
    if is_writable and not os.access(root, os.R_OK | os.W_OK | os.X_OK):
        raise WorkspaceSettingError(
            f"Workspace [{name}] is not writable: [{root}]. Give this user the right to write there."
        )
    return root.resolve()
