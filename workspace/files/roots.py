"""The roots of one home: the default temporary workspace may move while sessions live (seed 001, 5.1.5).

Why it exists: session records and leases stay where they began, in the *home*, so that gateways and reapers agree on
them through any move. Session locations are made in the root that is current, and lie in all roots there ever were. So
each root has a private pointer to its home, and the home has a register of its other roots. A root without a pointer
is its own home.

Each root also has a random id, and says whose session records name what lives in it. Both are written into it once,
when it is first used (:mod:`workspace.root_identities`).

Guarantees:

1. A root has its pointer, and is registered, before any session location is made in it.
2. A root that has session records, leases or other roots of its own never becomes a part of another home: they would be
   forgotten.
3. A root that is not there as it was is an error, never an empty root: what lies in it would otherwise look as if it
   were gone. Its id must be the one that this process saw first, and the one that is recorded.
4. Who uses a root as its own home finds out by :meth:`Roots.all` once it has become part of another one.
5. In the place of a root whose id is recorded, nothing is ever made that could pass for it.
6. A root that says it belongs to other records is refused: at the start, and at each look. One that says nothing, as
   none did once, becomes that of the first who knows it by its id, its session records or its home; of anybody, if
   there is nothing in it.

Not guaranteed: that a process which starts while another file system is in the place of a root finds that out, unless
the root's id is recorded elsewhere; nor that two that keep records in files know each other's apart, but these lie in
the root itself.

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
from workspace.root_identities import (
    HomeMovedError,
    RootIdentities,
    RootIds,
    RootTakenError,
    RootUnavailableError,
)


def home_of(root: Path) -> Path:
    """The home of a root: what its pointer names, or the root itself."""
    layout = Layout.below(root)
    return _pointed(layout) or layout.root


class Roots:
    """The roots of one home.

    Args:
        home: As :func:`home_of` returns it.
        root_ids: Where ids of roots are recorded; None if they are on the roots' own storage only.
    """

    def __init__(self, home: Path, root_ids: RootIds | None = None) -> None:
        self._home = Layout.below(home)
        self._identities = RootIdentities(root_ids)

    def add(self, root: Path) -> None:
        """Makes a root part of this home; safe to repeat, and for several processes at once.

        Raises: RootError
        """
        layout = Layout.below(root)
        if layout.root == self._home.root:
            self._initialise(layout)
            self.check(layout.root)
            self._identify_others()
            return
        self._home.roots.lstat()  # a home that is missing must not be made anew
        self._initialise(self._home)
        if self._entry(layout.root).exists():
            self._check_pointer(layout)
        self._initialise(layout)
        self._claim(layout)
        self._place(self._entry(layout.root), os.fsencode(layout.root), self._home)

    def all(self) -> Sequence[Path]:
        """As :meth:`registered`. Raises: RootError if one of them is not there as it was."""
        self.check(self._home.root)
        roots = self.registered()
        for root in roots[1:]:
            self.check(root)
        return roots

    def registered(self) -> Sequence[Path]:
        """The home and the roots that are registered."""
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
        """Raises: RootError if the root is not there as a part of this home."""
        layout = Layout.below(root)
        self._check_pointer(layout)
        try:
            root_id, records_id = _root_id(layout), _records_id(layout)
        except OSError as error:
            raise self._unavailable(layout.root, str(error)) from error
        self._identities.check(str(layout.root), root_id)
        self._identities.check_records(str(layout.root), records_id)

    def _initialise(self, layout: Layout) -> None:
        """Makes what is missing in a root, and gives it an id, if it never had one."""
        root = str(layout.root)
        if self._identities.expected(root) is not None:
            self._identities.check(root, _root_id(layout))
        self._identities.check_records(root, _records_id(layout))
        layout.initialise()
        if _records_id(layout) is None:
            self._require_unused(layout)
            self._place(layout.records, self._identities.records_id().encode(), layout)
            self._identities.check_records(root, _records_id(layout))
        expected = self._identities.expected(root)  # first: others record the id that is there
        root_id = _root_id(layout)
        if root_id is None and expected is None:
            self._place(layout.marker, secrets.token_hex(16).encode(), layout)
            root_id = _root_id(layout)
        self._identities.establish(root, root_id)

    def _require_unused(self, layout: Layout) -> None:
        """Raises: RootTakenError if there are sessions in a root that does not say whose, and these are not known."""
        root = str(layout.root)
        has_records = any(any(directory.iterdir()) for directory in (layout.sessions, layout.leases))
        if _root_id(layout) is None or _pointed(layout) == self._home.root:
            return
        if self._identities.expected(root) is not None or (has_records and not self._identities.are_recorded):
            return
        roots = self.registered() if layout.root == self._home.root else [layout.root]
        if has_records or any(is_uuid(entry.name) for each in roots for entry in each.iterdir()):
            raise self._identities.taken_error(root, "unknown session records")

    def _identify_others(self) -> None:
        """Gives ids to roots that were registered before roots had any; of one that is not there, looking will tell."""
        for root in self.registered()[1:]:
            with suppress(OSError):
                self._check_pointer(Layout(root))
                self._initialise(Layout(root))

    def _check_pointer(self, layout: Layout) -> None:
        is_home = layout.root == self._home.root
        try:
            home = _pointed(layout)
            is_there = home is not None or is_home
        except OSError as error:
            raise self._unavailable(layout.root, str(error)) from error
        if not is_there:
            raise self._unavailable(layout.root, f"[{layout.home}] is missing")
        if is_home and home is not None:
            raise HomeMovedError(
                f"[{layout.root}] has become a part of the Lodge at [{home}]. Start again to follow it."
            )
        if home is not None and home != self._home.root:
            raise RootTakenError(f"[{layout.root}] belongs to the Lodge at [{home}]. Use another directory.")

    def _claim(self, layout: Layout) -> None:
        is_new = self._place(layout.home, os.fsencode(self._home.root), layout)
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
        way_out = f"; or, if it is gone for good, remove [{self._entry(root)}]" if root != self._home.root else ""
        return RootUnavailableError(
            f"The root [{root}], which may hold session locations, cannot be used: {reason}. Bring its storage back"
            f"{way_out}."
        )

    @staticmethod
    def _place(path: Path, content: bytes, layout: Layout) -> bool:
        """Writes a whole file under a name. Returns: False if it is there already."""
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


def _pointed(layout: Layout) -> Path | None:
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
