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
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import unquote, urlsplit

from workspace.identifiers import is_uuid
from workspace.object_store.addresses import ObjectAddress, ObjectAddressError
from workspace.storage_paths import OWN_DIRECTORY, StoragePath


class WorkspaceError(Exception):
    """Base of what is wrong with a workspace or a path in it; the message says what to do::

    WorkspaceError
    ├── WorkspaceSettingError  the settings name a workspace that cannot be used
    ├── NotFileBasedError      a workspace has no directory, but is in an object store
    └── PathRefusedError       a path leads out of its workspace, or into Lodge's own files
    """


class WorkspaceSettingError(WorkspaceError):
    pass


class NotFileBasedError(WorkspaceError):
    pass


class PathRefusedError(WorkspaceError):
    pass


@dataclass(frozen=True, slots=True)
class Workspace:
    """One workspace.

    Attributes:
        name: As configured, such as ``dfs.tmp``.
        location: Its directory, absolute and without links; or a prefix in an object store, which only the default
            temporary workspace may be.
        is_writable: Whether statements may create and drop tables in it.
    """

    name: str
    location: Path | ObjectAddress
    is_writable: bool = False

    @property
    def is_file_based(self) -> bool:
        return isinstance(self.location, Path)

    @property
    def root(self) -> Path:
        """Its directory. Raises: NotFileBasedError if it is in an object store."""
        if isinstance(self.location, Path):
            return self.location
        raise NotFileBasedError(f"Workspace [{self.name}] is in an object store, and has no files of its own.")

    @property
    def storage_path(self) -> StoragePath:
        """How people are told of it."""
        return self.location if isinstance(self.location, Path) else self.location.storage_path

    @property
    def uri(self) -> str:
        """As the settings may say it."""
        return self.location.as_uri() if isinstance(self.location, Path) else self.location.uri

    @classmethod
    def temporary_from_uri(cls, name: str, uri: str) -> "Workspace":
        """The default workspace for temporary tables. Raises: WorkspaceSettingError as :meth:`from_uri`."""
        if urlsplit(uri).scheme != "s3":
            return cls.from_uri(name, uri, is_writable=True)
        try:
            return cls(name, ObjectAddress.from_uri(uri), is_writable=True)
        except ObjectAddressError as error:
            raise WorkspaceSettingError(f"The URI of workspace [{name}] {error}.") from None

    @classmethod
    def from_uri(cls, name: str, uri: str, *, is_writable: bool = False) -> "Workspace":
        """Raises: WorkspaceSettingError if the URI is not of a file system, or its directory does not exist or is not
        writable although it is to be."""
        parts = urlsplit(uri)
        if parts.scheme == "s3":
            raise WorkspaceSettingError(
                f"Workspace [{name}] must be file-based: only the default workspace for temporary tables may be in an "
                "object store. Give it a URI such as file:///data."
            )
        if parts.scheme != "file":
            shown = f"{parts.scheme}://..." if "@" in uri else uri  # what is before the @ may be a secret
            raise WorkspaceSettingError(
                f"Workspace [{name}] must be file-based: give it a URI such as file:///data, not [{shown}]."
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
        if is_writable and not os.access(root, os.R_OK | os.W_OK | os.X_OK):
            raise WorkspaceSettingError(
                f"Workspace [{name}] is not writable: [{root}]. Give this user the right to write there."
            )
        return cls(name, root.resolve(), is_writable)


@dataclass(frozen=True, slots=True)
class Workspaces:
    """All workspaces of a gateway.

    Attributes:
        by_name: Every workspace by its name.
        temporary: The default temporary workspace; one of ``by_name``, and always writable.
        former_roots: Where the default temporary workspace was before; session locations may lie there.
    """

    by_name: Mapping[str, Workspace]
    temporary: Workspace
    former_roots: tuple[StoragePath, ...] = ()

    @classmethod
    def from_uris(
        cls, uris: Mapping[str, str], default_temporary_workspace: str, writable: Sequence[str] = ()
    ) -> "Workspaces":
        """Checks what the settings say (seed 001, 4.1).

        Args:
            uris: The URI of each workspace.
            default_temporary_workspace: Which of them takes temporary tables.
            writable: Which others statements may write into.

        Raises:
            WorkspaceSettingError: A workspace does not exist or is not file-based, or the default temporary one or one
                that is to be writable is not among them or not writable.
        """
        known = ", ".join(f"[{name}]" for name in uris)
        if default_temporary_workspace not in uris:
            raise WorkspaceSettingError(
                f"The default temporary workspace [{default_temporary_workspace}] is not among the workspaces {known}; "
                "names are case-sensitive."
            )
        for name in writable:
            if name not in uris:
                raise WorkspaceSettingError(
                    f"The writable workspace [{name}] is not among the workspaces {known}; names are case-sensitive."
                )
        by_name = {
            name: Workspace.temporary_from_uri(name, uri)
            if name == default_temporary_workspace
            else Workspace.from_uri(name, uri, is_writable=name in writable)
            for name, uri in uris.items()
        }
        return cls(by_name, by_name[default_temporary_workspace])

    @property
    def temporary_roots(self) -> tuple[StoragePath, ...]:
        """All places that session locations may lie in, the current one first."""
        return (self.temporary.storage_path, *self.former_roots)

    def with_former_roots(self, roots: Sequence[StoragePath]) -> "Workspaces":
        """The same, of a default temporary workspace that was in these directories, now or before."""
        return replace(self, former_roots=tuple(root for root in roots if root != self.temporary.storage_path))

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
        if not workspace.is_file_based:
            raise FileNotFoundError(f"{refused} does not exist: an object store has temporary tables only.")
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
        roots = (root for root in self.temporary_roots if isinstance(root, Path) and real.is_relative_to(root))
        inside = (real.relative_to(root).parts for root in roots)
        return any(not parts or parts[0] == OWN_DIRECTORY or is_uuid(parts[0]) for parts in inside)

    def _match_in_any_case(self, name: str) -> Workspace | None:
        folded = name.casefold()
        found = [workspace for known, workspace in self.by_name.items() if known.casefold() == folded]
        return found[0] if len(found) == 1 else None
