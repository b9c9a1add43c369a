"""The roots of one home.

The default temporary workspace can move to another directory while sessions are open [temporary-tables §5.1.5].

Session records and leases stay in the first root, the *home*. Therefore, all gateways and reapers use the same records
and leases, even after the workspace moved. New session locations are created in the current root, but all former roots
may also contain session locations. Each root has a private pointer to its home, and the home has a register of its
other roots. A root without a pointer is its own home.

Each root also contains a random id and the id of the session records that refer to its contents. Both are written when
the root is first used (:mod:`workspace.root_identities`).

Guarantees:

1. The pointer of a root is written, and the root is registered, before any session location is created in the root.
2. A root that has its own session records, leases or other roots never becomes part of another home, because they
   would be lost.
3. If a root is missing or was replaced, an error is raised. It is never treated as an empty root, because its contents
   would look removed. The id of a root must be the recorded id and the id that this process found first.
4. If a root becomes part of another home, a process that uses the root as its own home gets an error from
   :meth:`Roots.all`.
5. If the id of a root is recorded, nothing that could be mistaken for the root is ever created at its path.
6. A root that belongs to other session records is refused, both at the start and for each snapshot. Early versions of
   Lodge did not write the id of the session records to the root. Such a root belongs to the first process that can
   identify the root by its id, its session records or its home. Any process can use an empty root.

Not guaranteed:

- If another file system was mounted in place of a root before the process started, the process may not notice this,
  unless the id of the root is recorded elsewhere or is known from a former process.
- Two processes with records in files cannot distinguish their records, because such records are in the root itself.

All methods block, and raise OSError if the storage fails.
"""

import hashlib
import os
import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType

from workspace.files.home_identity import read_root_id
from workspace.files.layout import Layout
from workspace.files.private_files import open_directory, read_private_file, sync_directory, write_private_file
from workspace.identifiers import is_uuid
from workspace.root_identities import HomeMovedError, RootIdentities, RootIds, RootTakenError, RootUnavailableError


def home_of(root: Path) -> Path:
    """Return the home of a root.

    The home is the target of the root's pointer or, without a pointer, the root itself.
    """
    layout = Layout(root)
    return _pointer_target(layout) or layout.root


class Roots:
    """The roots of one home.

    Args:
        home: The home, as returned by :func:`home_of`.
        root_ids: The registry of root ids. None if ids are stored only in the roots.
        seen_ids: The ids that a former process has found, by root.
    """

    def __init__(
        self, home: Path, root_ids: RootIds | None = None, seen_ids: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        self._home = Layout(home)
        self._identities = RootIdentities(root_ids, seen_ids)

    @property
    def seen_ids(self) -> Mapping[str, str]:
        """The ids that this process or a former one has found, by root."""
        return self._identities.seen

    def add(self, root: Path) -> None:
        """Make a root part of this home.

        The method can be repeated and can run concurrently.

        Raises:
            RootError: If the root was replaced or belongs to another home.
        """
        layout = Layout(root)
        if layout.root == self._home.root:
            self._initialise(layout)
            self.check(layout.root)
            self._identify_others()
            return
        self._home.roots.lstat()  # a missing home must not be created again
        self._initialise(self._home)
        if self._entry(layout.root).exists():
            self._check_pointer(layout)
        self._initialise(layout)
        self._claim(layout)
        self._write_new(self._entry(layout.root), os.fsencode(layout.root), self._home)

    def all(self) -> Sequence[Path]:
        """Return the home and all registered roots after checking them.

        Raises:
            RootError: If one of the roots is missing or was replaced.
        """
        self.check(self._home.root)
        roots = self.registered()
        for root in roots[1:]:
            self.check(root)
        return roots

    def registered(self) -> Sequence[Path]:
        """Return the home and all registered roots without checking them."""
        roots = [self._home.root]
        try:
            with open_directory(self._home.roots) as register:
                for entry in sorted(self._home.roots.iterdir()):
                    root = Path(os.fsdecode(read_private_file(entry.name, register)))
                    if self._entry(root) == entry:
                        roots.append(root)
        except OSError as error:
            raise self._unavailable(self._home.root, str(error)) from error
        return roots

    def check(self, root: Path) -> None:
        """Check that a root was not replaced and is part of this home.

        Raises:
            RootError: If the root was replaced or is not part of this home.
        """
        layout = Layout(root)
        self._check_pointer(layout)
        try:
            root_id, records_id = read_root_id(layout), _records_id(layout)
        except OSError as error:
            raise self._unavailable(layout.root, str(error)) from error
        has_records = layout.root == self._home.root and not self._identities.are_recorded
        self._identities.check(str(layout.root), root_id, has_records=has_records)
        self._identities.check_records(str(layout.root), records_id)

    def _initialise(self, layout: Layout) -> None:
        """Create the missing files of a root, and generate an id if it never had one."""
        root = str(layout.root)
        if self._identities.expected(root) is not None:
            self._identities.check(root, read_root_id(layout))
        self._identities.check_records(root, _records_id(layout))
        layout.initialise()
        if _records_id(layout) is None:
            self._require_unused(layout)
            self._write_new(layout.records, self._identities.records_id().encode(), layout)
            self._identities.check_records(root, _records_id(layout))
        # The expected id must be read before the root id, because other processes record the existing id.
        expected = self._identities.expected(root)
        root_id = read_root_id(layout)
        if root_id is None and expected is None:
            self._write_new(layout.marker, secrets.token_hex(16).encode(), layout)
            root_id = read_root_id(layout)
        self._identities.establish(root, root_id)

    def _require_unused(self, layout: Layout) -> None:
        """Check that a root without a records id does not contain unknown sessions.

        Raises:
            RootTakenError: If the root contains sessions of unknown session records.
        """
        root = str(layout.root)
        has_records = any(any(directory.iterdir()) for directory in (layout.sessions, layout.leases))
        if read_root_id(layout) is None or _pointer_target(layout) == self._home.root:
            return
        if self._identities.expected(root) is not None or (has_records and not self._identities.are_recorded):
            return
        roots = self.registered() if layout.root == self._home.root else [layout.root]
        if has_records or any(is_uuid(entry.name) for each in roots for entry in each.iterdir()):
            raise self._identities.taken_error(root, "unknown session records")

    def _identify_others(self) -> None:
        """Generate ids for roots that were registered by versions without root ids.

        Errors of missing roots are ignored here, because reading these roots raises an error later.
        """
        for root in self.registered()[1:]:
            with suppress(OSError):
                self._check_pointer(Layout(root))
                self._initialise(Layout(root))

    def _check_pointer(self, layout: Layout) -> None:
        is_home = layout.root == self._home.root
        try:
            home = _pointer_target(layout)
            exists = home is not None or is_home
        except OSError as error:
            raise self._unavailable(layout.root, str(error)) from error
        if not exists:
            raise self._unavailable(layout.root, f"[{layout.home}] is missing")
        if is_home and home is not None:
            raise HomeMovedError(
                f"The root [{layout.root}] has become part of the Lodge installation at [{home}]. Restart this process "
                "so that it uses that installation."
            )
        if home is not None and home != self._home.root:
            raise RootTakenError(
                f"The root [{layout.root}] belongs to the Lodge installation at [{home}]. Use another directory."
            )

    def _claim(self, layout: Layout) -> None:
        is_new = self._write_new(layout.home, os.fsencode(self._home.root), layout)
        if not is_new:
            self.check(layout.root)
        if any(any(directory.iterdir()) for directory in (layout.sessions, layout.leases, layout.roots)):
            if is_new:
                layout.home.unlink(missing_ok=True)
            raise RootTakenError(
                f"The root [{layout.root}] contains session records or leases of another Lodge installation. Use "
                "another directory, or stop that installation and remove its sessions with `lodge reap`."
            )

    def _entry(self, root: Path) -> Path:
        return self._home.roots / hashlib.sha256(os.fsencode(root)).hexdigest()[:40]

    def _unavailable(self, root: Path, reason: str) -> RootUnavailableError:
        remedy = f" If the storage no longer exists, remove [{self._entry(root)}]." if root != self._home.root else ""
        return RootUnavailableError(
            f"The root [{root}], which may contain session locations, cannot be used: {reason}. Restore its storage."
            f"{remedy}"
        )

    @staticmethod
    def _write_new(path: Path, content: bytes, layout: Layout) -> bool:
        """Write a complete file if it does not exist, and return whether it was written."""
        if os.path.lexists(path):  # needs no space, so that a process can start on a full disk
            return False
        staged = layout.staging / secrets.token_hex(16)
        with open_directory(layout.staging) as staging:
            write_private_file(staged.name, content, staging)
        try:
            path.hardlink_to(staged)
        except FileExistsError:
            return False
        finally:
            staged.unlink(missing_ok=True)
        sync_directory(path.parent)
        return True


def _pointer_target(layout: Layout) -> Path | None:
    home = layout.read(layout.home)
    return None if home is None else Path(os.fsdecode(home))


def _records_id(layout: Layout) -> str | None:
    records_id = layout.read(layout.records)
    return None if records_id is None else records_id.decode("utf-8", "replace")
