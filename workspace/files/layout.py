"""The directories below a root of the default temporary workspace.

::

    <root>/<session uuid>/<table uuid>/   session locations; the root contains nothing else except .lodge
    <root>/.lodge/sessions/               session records
    <root>/.lodge/leases/                 leases of gateway replicas
    <root>/.lodge/staging/                records and leases that are being written
    <root>/.lodge/trash/                  removed locations and tables; new locations until they are complete
    <root>/.lodge/roots/                  the other roots of this home (:mod:`workspace.files.roots`)
    <root>/.lodge/table-owners/           owners of permanent tables (:mod:`workspace.files.table_owners`)
    <root>/.lodge/scan-schemas/           schemas of scanned files (:mod:`workspace.files.schema_segments`)
    <root>/.lodge/reserve/                space for a full disk (:mod:`workspace.files.space_reserve`)
    <root>/.lodge/home                    the home of this root, unless the root is its own home
    <root>/.lodge/root                    the id of this root
    <root>/.lodge/records                 the id of the session records that refer to the contents of this root

Everything below a root must be on the same file system, so that renames are atomic.
"""

from pathlib import Path

from workspace.files.private_files import make_private_directory, open_directory, read_private_file
from workspace.files.space_reserve import SpaceReserve
from workspace.storage_paths import OWN_DIRECTORY


class Layout:
    """The paths below one root. See the module docstring for their meaning.

    Args:
        root: The root directory. The path may be relative.
    """

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()
        self.own = self.root / OWN_DIRECTORY
        self.sessions = self.own / "sessions"
        self.leases = self.own / "leases"
        self.staging = self.own / "staging"
        self.trash = self.own / "trash"
        self.roots = self.own / "roots"
        self.table_owners = self.own / "table-owners"
        self.scan_schemas = self.own / "scan-schemas"
        self.reserve = self.own / "reserve"
        self.home = self.own / "home"
        self.marker = self.own / "root"
        self.records = self.own / "records"

    def initialise(self) -> None:
        """Create the directories that are missing.

        The method can be repeated and can run concurrently. If the root is missing, it is created with mode 0700. An
        existing root keeps its mode, which is the operator's decision.

        Raises:
            OSError: If a directory cannot be created, or if a link or a file has the same name.
        """
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        for directory in (self.own, self.sessions, self.leases, self.staging, self.trash, self.roots, self.reserve):
            make_private_directory(directory)
        SpaceReserve(self.reserve).fill()

    def read(self, file: Path) -> bytes | None:
        """Return the content of a file in Lodge's own directory, or None.

        The result is None if the file does not exist.

        Raises:
            OSError: If it cannot be read.
        """
        try:
            with open_directory(self.own) as own:
                return read_private_file(file.name, own)
        except FileNotFoundError:
            return None
