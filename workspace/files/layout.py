"""The directories below the root of the default temporary workspace.

::

    <root>/<session uuid>/<table uuid>/   session locations: the only names beside .lodge
    <root>/.lodge/sessions/               session records
    <root>/.lodge/leases/                 leases of gateway replicas
    <root>/.lodge/staging/                records and leases that are being written
    <root>/.lodge/trash/                  removed locations and tables; new locations until they are complete
    <root>/.lodge/roots/                  the other roots of this home (:mod:`workspace.files.roots`)
    <root>/.lodge/home                    the home of this root, unless the root is its own home
    <root>/.lodge/root                    the id of this root
    <root>/.lodge/records                 the id of the session records that name the contents of this root

Everything below one root must be on one file system, so that a rename is atomic.
"""

from dataclasses import dataclass
from pathlib import Path

from workspace.files.private_files import make_private_directory
from workspace.storage_paths import OWN_DIRECTORY


@dataclass(frozen=True, slots=True)
class Layout:
    """The paths below one root.

    Attributes:
        root: The absolute path of the default temporary workspace.
    """

    root: Path

    @classmethod
    def below(cls, root: Path) -> "Layout":
        """Return the layout of a root, which may be a relative path."""
        return cls(root.absolute())

    @property
    def own(self) -> Path:
        return self.root / OWN_DIRECTORY

    @property
    def sessions(self) -> Path:
        return self.own / "sessions"

    @property
    def leases(self) -> Path:
        return self.own / "leases"

    @property
    def staging(self) -> Path:
        return self.own / "staging"

    @property
    def trash(self) -> Path:
        return self.own / "trash"

    @property
    def roots(self) -> Path:
        return self.own / "roots"

    @property
    def home(self) -> Path:
        return self.own / "home"

    @property
    def marker(self) -> Path:
        return self.own / "root"

    @property
    def records(self) -> Path:
        return self.own / "records"

    def initialise(self) -> None:
        """Create the missing directories; safe to repeat and to run concurrently.

        A missing root gets mode 0700. An existing root keeps its mode, which is the operator's decision.

        Raises:
            OSError: If a directory cannot be created, or a link or a file has its name.
        """
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        for directory in (self.own, self.sessions, self.leases, self.staging, self.trash, self.roots):
            make_private_directory(directory)
