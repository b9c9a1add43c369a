"""Workspaces, which are named storage locations that statements may use.

A name in a statement, such as ``dfs.tmp``, must refer to exactly one directory, and a path in a statement must never
refer to a file outside that directory. The gateway and the reaper read the same settings and check them with this
module when they start.

Guarantees:

1. If several workspace names match the beginning of a reference, the longest name is used.
2. Configured names are case-sensitive [temporary-tables §4.1]. In a reference, a name with the same case takes
   precedence. A name with different case also matches if there is only one such workspace, because names in Spark are
   not case-sensitive.
3. :meth:`Workspaces.resolve` never returns a path that is outside the workspace, in a session location, or in Lodge's
   own files, even if the path contains symbolic links. The engine checks this again when it opens the file.

Source: [temporary-tables §4.1], [temporary-tables §5.1.3], [temporary-tables §5.4], [temporary-tables §5.5].
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import unquote, urlsplit

from workspace.identifiers import is_uuid
from workspace.name_comparison import comparable_name
from workspace.object_store.addresses import ObjectAddress, ObjectAddressError
from workspace.source_addresses import SCHEMES, SourceAddress, SourceAddressError
from workspace.storage_paths import OWN_DIRECTORY, StoragePath


class WorkspaceError(Exception):
    """Base class for errors of workspaces and their paths.

    The message contains instructions for the user.

    ::

        WorkspaceError
        ├── WorkspaceSettingError  a workspace in the settings cannot be used
        ├── NotFileBasedError      a workspace is in an object store and has no directory
        └── PathRefusedError       a path leads out of its workspace or into Lodge's own files
    """


class WorkspaceSettingError(WorkspaceError):
    """Raised if a workspace in the settings cannot be used."""


class NotFileBasedError(WorkspaceError):
    """Raised if a workspace has no directory because it is in an object store."""


class PathRefusedError(WorkspaceError):
    """Raised if a path leads out of its workspace or into Lodge's own files."""


@dataclass(frozen=True, slots=True)
class Workspace:
    """A named storage location.

    Attributes:
        name: The configured name, such as ``dfs.tmp``.
        location: The directory of the workspace, as an absolute path without symbolic links. The default temporary
            workspace can also be a key prefix in an S3 bucket. Other workspaces can also be directories in object
            stores or HDFS, which statements only read.
        is_writable: Whether statements may create and drop tables in the workspace.
    """

    name: str
    location: Path | ObjectAddress | SourceAddress
    is_writable: bool = False

    @property
    def is_file_based(self) -> bool:
        """Whether the workspace is a directory."""
        return isinstance(self.location, Path)

    @property
    def is_remote_source(self) -> bool:
        """Whether the workspace is in an object store or HDFS, and statements only read it."""
        return isinstance(self.location, SourceAddress)

    @property
    def root(self) -> Path:
        """The directory of the workspace.

        Raises:
            NotFileBasedError: If the workspace is in an object store.
        """
        if isinstance(self.location, Path):
            return self.location
        raise NotFileBasedError(f"Workspace [{self.name}] is in an object store and does not have a directory.")

    @property
    def temporary_location(self) -> Path | ObjectAddress:
        """Where session locations are, if this is the default temporary workspace.

        Raises:
            NotFileBasedError: If the workspace can only be read.
        """
        if isinstance(self.location, SourceAddress):
            raise NotFileBasedError(f"Workspace [{self.name}] can only be read.")
        return self.location

    @property
    def storage_path(self) -> StoragePath:
        """The directory, or the URI without its options, in a human-readable form."""
        return self.location if isinstance(self.location, Path) else self.location.storage_path

    @property
    def uri(self) -> str:
        """The complete URI, as written in the settings."""
        return self.location.as_uri() if isinstance(self.location, Path) else self.location.uri

    @classmethod
    def from_uri(cls, name: str, uri: str, *, is_writable: bool = False, is_temporary: bool = False) -> "Workspace":
        """Create a workspace from a URI in the settings.

        Args:
            name: The name of the workspace.
            uri: A ``file:`` URI, or that of an object store. Only the default temporary workspace and workspaces that
                are only read may be in an object store.
            is_writable: Whether statements may create and drop tables in the workspace.
            is_temporary: Whether the workspace is the default temporary workspace, which is always writable.

        Raises:
            WorkspaceSettingError: If the URI is invalid, or if the directory is missing or not writable although it
                must be.
        """
        scheme = uri.partition(":")[0].lower()
        try:
            if is_temporary and scheme == "s3":
                return cls(name, ObjectAddress.from_uri(uri), is_writable=True)
            if not is_temporary and not is_writable and scheme in SCHEMES:
                return cls(name, SourceAddress.from_uri(uri))
        except (ObjectAddressError, SourceAddressError) as error:
            raise WorkspaceSettingError(f"The URI of workspace [{name}] {error}.") from None
        if is_writable and scheme in SCHEMES:
            raise WorkspaceSettingError(
                f"Workspace [{name}] must be file-based, because statements may write to it. Set a URI such as "
                "file:///data, or remove it from the writable workspaces."
            )
        return cls(name, _directory_of(name, uri, is_writable=is_writable or is_temporary), is_writable or is_temporary)


@dataclass(frozen=True, slots=True)
class Workspaces:
    """All workspaces of a gateway.

    Attributes:
        by_name: All workspaces by name.
        temporary: The default temporary workspace. It is also in ``by_name`` and is always writable.
        former_roots: The former roots of the default temporary workspace. They may still contain session locations.
    """

    by_name: Mapping[str, Workspace]
    temporary: Workspace
    former_roots: tuple[StoragePath, ...] = ()
    _most_parts: int = field(init=False, repr=False, compare=False)
    _most_characters: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_most_parts", max(name.count(".") + 1 for name in self.by_name))
        object.__setattr__(self, "_most_characters", max(len(comparable_name(name)) for name in self.by_name))

    @classmethod
    def from_uris(
        cls, uris: Mapping[str, str], default_temporary_workspace: str, writable: Sequence[str] = ()
    ) -> "Workspaces":
        """Create all workspaces from the settings [temporary-tables §4.1].

        Args:
            uris: The URI of each workspace, by name.
            default_temporary_workspace: The name of the workspace in which temporary tables are stored.
            writable: The names of other workspaces that statements may write to.

        Raises:
            WorkspaceSettingError: If a name is unknown or a workspace cannot be used.
        """
        known = ", ".join(f"[{name}]" for name in uris)
        required = {"default temporary": [default_temporary_workspace], "writable": writable}
        for kind, names in required.items():
            for name in names:
                if name not in uris:
                    raise WorkspaceSettingError(
                        f"The {kind} workspace [{name}] is not among the workspaces {known}. Define it in the settings "
                        "or correct its name. Names are case-sensitive."
                    )
        by_name = {
            name: Workspace.from_uri(
                name, uri, is_writable=name in writable, is_temporary=name == default_temporary_workspace
            )
            for name, uri in uris.items()
        }
        temporary = by_name[default_temporary_workspace]
        for workspace in by_name.values():
            _require_separate(workspace, temporary)
        return cls(by_name, temporary)

    @property
    def temporary_roots(self) -> tuple[StoragePath, ...]:
        """All roots that may contain session locations. The current root is first."""
        return (self.temporary.storage_path, *self.former_roots)

    def with_former_roots(self, roots: Sequence[StoragePath]) -> "Workspaces":
        """Return the same workspaces with the given former roots.

        The current root is removed from the former roots.
        """
        return replace(self, former_roots=tuple(root for root in roots if root != self.temporary.storage_path))

    def match(self, parts: Sequence[str]) -> tuple[Workspace, int] | None:
        """Return the workspace at the beginning of a multipart name.

        The cost does not depend on the number of parts, which a client chooses.

        Returns:
            The workspace and the number of parts that form its name, or None if no workspace matches.
        """
        for count in range(min(len(parts), self._most_parts), 0, -1):
            name = ".".join(parts[:count])
            if len(name) > self._most_characters:  # a comparable name is never shorter than the name
                continue
            found = self.by_name.get(name) or self._match_in_any_case(name)
            if found is not None:
                return found, count
        return None

    def resolve(self, workspace: Workspace, path: str) -> Path:
        """Return the real path of a file or directory in a statement.

        Args:
            workspace: The workspace that contains the file or directory.
            path: The path in the statement, relative to the root of the workspace.

        Raises:
            PathRefusedError: If the path leads out of the workspace or into Lodge's own files.
            FileNotFoundError: If the path does not exist.
        """
        shown = f"Path [{path}] of workspace [{workspace.name}]"
        if not path or "\0" in path or path.startswith("/") or ".." in path.split("/"):
            raise PathRefusedError(f"{shown} is not allowed. Use a path relative to the workspace, without '..'.")
        if not workspace.is_file_based:
            raise FileNotFoundError(
                f"{shown} does not exist, because a workspace in an object store contains only temporary tables."
            )
        try:
            real = (workspace.root / path).resolve(strict=True)
        except FileNotFoundError:
            raise FileNotFoundError(f"{shown} does not exist.") from None
        except (OSError, RuntimeError) as error:  # RuntimeError is raised for a loop of symbolic links
            raise PathRefusedError(f"{shown} cannot be read: {error.__class__.__name__}.") from None
        if not real.is_relative_to(workspace.root):
            raise PathRefusedError(f"{shown} leads out of the workspace through a symbolic link.")
        if self._is_own(real):
            raise PathRefusedError(f"{shown} belongs to Lodge and cannot be read directly. Use the name of the table.")
        return real

    def _is_own(self, real: Path) -> bool:
        roots = (root for root in self.temporary_roots if isinstance(root, Path) and real.is_relative_to(root))
        below_roots = (real.relative_to(root).parts for root in roots)
        return any(not parts or parts[0] == OWN_DIRECTORY or is_uuid(parts[0]) for parts in below_roots)

    def _match_in_any_case(self, name: str) -> Workspace | None:
        wanted = comparable_name(name)
        found = [workspace for known, workspace in self.by_name.items() if comparable_name(known) == wanted]
        return found[0] if len(found) == 1 else None


def _require_separate(workspace: Workspace, temporary: Workspace) -> None:
    """Check that statements cannot read session locations as raw files.

    Scans of directories exclude them. Scans of object stores do not.
    """
    read, written = workspace.location, temporary.location
    if not isinstance(read, SourceAddress) or not isinstance(written, ObjectAddress):
        return
    first, second = (f"{path}/" for path in (read.storage_path, written.storage_path))
    if first.startswith(second) or second.startswith(first):
        raise WorkspaceSettingError(
            f"Workspace [{workspace.name}] overlaps with the temporary workspace [{temporary.name}]. Give them "
            "different prefixes, none of which contains the other, or different buckets."
        )


def _directory_of(name: str, uri: str, *, is_writable: bool) -> Path:
    try:
        parts = urlsplit(uri)
    except ValueError as error:
        raise WorkspaceSettingError(
            f"Workspace [{name}] has an invalid URI ({error}). Set a URI such as file:///data."
        ) from None
    if parts.scheme != "file":
        shown = f"{parts.scheme}://..." if "@" in uri else uri  # the part before the @ may contain a secret
        raise WorkspaceSettingError(
            f"Workspace [{name}] must be file-based. Set a URI such as file:///data instead of [{shown}]."
        )
    if parts.netloc not in {"", "localhost"} or not parts.path.startswith("/") or parts.query or parts.fragment:
        raise WorkspaceSettingError(
            f"Workspace [{name}] has the URI [{uri}], which is not an absolute path. Set a URI such as file:///data."
        )
    root = Path(unquote(parts.path))
    try:
        is_directory = root.is_dir()
    except OSError as error:  # for example, the network file system is disconnected
        raise WorkspaceSettingError(
            f"Workspace [{name}] cannot be used now: [{root}] cannot be read ({error.strerror}). Check the storage."
        ) from error
    if not is_directory:
        raise WorkspaceSettingError(
            f"Workspace [{name}] does not exist: there is no directory [{root}]. Create the directory, or correct the "
            "URI."
        )
    if is_writable and not os.access(root, os.R_OK | os.W_OK | os.X_OK):
        raise WorkspaceSettingError(
            f"Workspace [{name}] is not writable: this process must be able to read and write the directory [{root}]. "
            "Change the permissions of the directory."
        )
    return root.resolve()
