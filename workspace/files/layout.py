"""Where things lie below the root of the default temporary workspace.

::

    <root>/<session uuid>/<table uuid>/   session locations: the only thing beside .lodge
    <root>/.lodge/sessions/               session records
    <root>/.lodge/leases/                 leases of gateway replicas
    <root>/.lodge/staging/                records and leases that are being written
    <root>/.lodge/trash/                  what was set aside, and never comes back; locations that are being made
    <root>/.lodge/roots/                  the other roots of this home (:mod:`workspace.files.roots`)
    <root>/.lodge/home                    the home of this root, if it is not its own
    <root>/.lodge/root                    the id of this root
    <root>/.lodge/records                 whose session records say what lives in this root

All of it must be on one file system, so that renaming is atomic. Each root has its own.
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
        """Makes what is missing; safe to repeat, and for several processes at once.

        A root that is missing is made with mode 0700; the mode of one that exists is its operator's decision.

        Raises: OSError, also for a link or a file in the place of one of Lodge's own directories.
        """
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        for directory in (self.own, self.sessions, self.leases, self.staging, self.trash, self.roots):
            make_private_directory(directory)
