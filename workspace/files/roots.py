"""The roots of one home.

The default temporary workspace may move while sessions live [temporary-tables §5.1.5].

Session records and leases stay in the first root, the *home*, so that gateways and reapers agree on them through any
move. Session locations are created in the current root, and exist in all roots so far. So each root has a private
pointer to its home, and the home has a register of its other roots. A root without a pointer is its own home.

Each root also has a random id, and says whose session records name its contents. Both are written when the root is
first used (:mod:`workspace.root_identities`).

Guarantees:

1. A root has its pointer and is registered before any session location is created in it.
2. A root with session records, leases or other roots of its own never becomes a part of another home, which would lose
   them.
3. A root that is missing or was replaced is an error, never an empty root; otherwise its contents would look removed.
   Its id must be the one that this process saw first, and the recorded one.
4. A process that uses a root as its own home learns from :meth:`Roots.all` that the root has become part of another
   home.
5. If a root's id is recorded, nothing is ever created in its place that could be mistaken for the root.
6. A root that belongs to other records is refused, at the start and at each snapshot. Early versions of Lodge wrote no
   such mark. A root without it belongs to the first process that knows it by its id, its session records or its home;
   an empty root belongs to anyone.

Not guaranteed:

- That a process notices a file system that took the place of a root before the process started, unless the id of the
  root is recorded elsewhere.
- That two processes with records in files tell their records apart. Such records are in the root itself.

All methods block, and raise OSError when the storage fails.
"""

import hashlib
import os
import secrets
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from workspace.files.layout import Layout
from workspace.files.private_files import open_directory, read_private_file, sync_directory, write_private_file
from workspace.identifiers import is_uuid
from workspace.root_identities import HomeMovedError, RootIdentities, RootIds, RootTakenError, RootUnavailableError


def home_of(root: Path) -> Path:
    """Return the home of a root: the target of its pointer, or the root itself."""
    layout = Layout(root)
    return _pointer_target(layout) or layout.root


class Roots:
    """The roots of one home.

    Args:
        home: The home, as :func:`home_of` returns it.
        root_ids: The registry of root ids; None if the ids are stored only in the roots.
    """

    def __init__(self, home: Path, root_ids: RootIds | None = None) -> None:
        self._home = Layout(home)
        self._identities = RootIdentities(root_ids)

    def add(self, root: Path) -> None:
        """Make a root part of this home; safe to repeat and to run concurrently.

        Raises:
            RootError: If the root was replaced, or belongs to another home.
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
        """Return the home and the registered roots, all checked.

        Raises:
            RootError: If one of them is missing or was replaced.
        """
        self.check(self._home.root)
        roots = self.registered()
        for root in roots[1:]:
            self.check(root)
        return roots

    def registered(self) -> Sequence[Path]:
        """Return the home and the registered roots, unchecked."""
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
        """Check that a root is what it was, and part of this home.

        Raises:
            RootError: If it is not.
        """
        layout = Layout(root)
        self._check_pointer(layout)
        try:
            root_id, records_id = _root_id(layout), _records_id(layout)
        except OSError as error:
            raise self._unavailable(layout.root, str(error)) from error
        self._identities.check(str(layout.root), root_id)
        self._identities.check_records(str(layout.root), records_id)

    def _initialise(self, layout: Layout) -> None:
        """Create what is missing in a root, and give it an id if it never had one."""
        root = str(layout.root)
        if self._identities.expected(root) is not None:
            self._identities.check(root, _root_id(layout))
        self._identities.check_records(root, _records_id(layout))
        layout.initialise()
        if _records_id(layout) is None:
            self._require_unused(layout)
            self._write_new(layout.records, self._identities.records_id().encode(), layout)
            self._identities.check_records(root, _records_id(layout))
        expected = self._identities.expected(root)  # read this first, because others record the existing id
        root_id = _root_id(layout)
        if root_id is None and expected is None:
            self._write_new(layout.marker, secrets.token_hex(16).encode(), layout)
            root_id = _root_id(layout)
        self._identities.establish(root, root_id)

    def _require_unused(self, layout: Layout) -> None:
        """Raise RootTakenError if a root contains sessions of unknown records."""
        root = str(layout.root)
        has_records = any(any(directory.iterdir()) for directory in (layout.sessions, layout.leases))
        if _root_id(layout) is None or _pointer_target(layout) == self._home.root:
            return
        if self._identities.expected(root) is not None or (has_records and not self._identities.are_recorded):
            return
        roots = self.registered() if layout.root == self._home.root else [layout.root]
        if has_records or any(is_uuid(entry.name) for each in roots for entry in each.iterdir()):
            raise self._identities.taken_error(root, "unknown session records")

    def _identify_others(self) -> None:
        """Give ids to roots that were registered before roots had ids.

        A missing root fails later, when it is read.
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
                f"[{layout.root}] has become a part of the Lodge at [{home}]. Restart this process to follow it."
            )
        if home is not None and home != self._home.root:
            raise RootTakenError(f"[{layout.root}] belongs to the Lodge at [{home}]. Use another directory.")

    def _claim(self, layout: Layout) -> None:
        is_new = self._write_new(layout.home, os.fsencode(self._home.root), layout)
        if not is_new:
            self.check(layout.root)
        if any(any(directory.iterdir()) for directory in (layout.sessions, layout.leases, layout.roots)):
            if is_new:
                layout.home.unlink(missing_ok=True)
            raise RootTakenError(
                f"[{layout.root}] has session records or leases of another Lodge. Use another directory, or let "
                "`lodge reap` clear it after that Lodge was stopped."
            )

    def _entry(self, root: Path) -> Path:
        return self._home.roots / hashlib.sha256(os.fsencode(root)).hexdigest()[:40]

    def _unavailable(self, root: Path, reason: str) -> RootUnavailableError:
        remedy = f"; or, if it is gone for good, remove [{self._entry(root)}]" if root != self._home.root else ""
        return RootUnavailableError(
            f"The root [{root}], which may contain session locations, cannot be used: {reason}. Bring its storage back"
            f"{remedy}."
        )

    @staticmethod
    def _write_new(path: Path, content: bytes, layout: Layout) -> bool:
        """Write a complete file unless the name exists, and return whether it was written."""
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
    home = _read(layout, layout.home)
    return None if home is None else Path(os.fsdecode(home))


def _root_id(layout: Layout) -> str | None:
    root_id = _read(layout, layout.marker)
    return None if root_id is None else root_id.decode("ascii", "replace")


def _records_id(layout: Layout) -> str | None:
    records_id = _read(layout, layout.records)
    return None if records_id is None else records_id.decode("utf-8", "replace")


def _read(layout: Layout, file: Path) -> bytes | None:
    try:
        with open_directory(layout.own) as own:
            return read_private_file(file.name, own)
    except FileNotFoundError:
        return None
