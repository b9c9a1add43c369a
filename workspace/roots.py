"""The roots of one home: the default temporary workspace may move while sessions live (seed 001, 5.1.5).

Why it exists: session records and leases stay where they began, in the *home*, so that gateways and reapers agree on
them through any move. Session locations are made in the root that is current, and lie in all roots there ever were. So
each root has a private pointer to its home, and the home has a register of its other roots. A root without a pointer
is its own home.

Guarantees:

1. A root has its pointer, and is registered, before any session location is made in it.
2. A root that has session records, leases or other roots of its own never becomes a part of another home: they would be
   forgotten.
3. A registered root that is not there as it was registered is an error, never an empty root: what lies in it would
   otherwise look as if it were gone. A file system that is not mounted looks like an empty directory, so the pointer
   must be there.
4. Who uses a root as its own home finds out by :meth:`Roots.all` once it has become part of another one.

All methods block, and raise OSError when the storage fails.
"""

import errno
import hashlib
import os
import secrets
from collections.abc import Sequence
from pathlib import Path

from workspace.layout import Layout
from workspace.private_files import opened_directory, read_private_file, sync_directory, write_private_file


class RootError(OSError):
    """Base of what is wrong with a root; the message says what to do::

    RootError
    ├── RootUnavailableError  a registered root is not there
    ├── RootTakenError        a root belongs to another home
    └── HomeMovedError        what was a home has become part of another one
    """

    def __init__(self, message: str) -> None:
        super().__init__(errno.EIO, message)
        self.message = message

    def __str__(self) -> str:
        return self.message


class RootUnavailableError(RootError):
    pass


class RootTakenError(RootError):
    pass


class HomeMovedError(RootError):
    pass


def home_of(root: Path) -> Path:
    """The home of a root: what its pointer names, or the root itself."""
    layout = Layout.below(root)
    return _pointed(layout) or layout.root


class Roots:
    """The roots of one home.

    Args:
        home: As :func:`home_of` returns it.
    """

    def __init__(self, home: Path) -> None:
        self._home = Layout.below(home)

    def add(self, root: Path) -> None:
        """Makes a root part of this home; safe to repeat, and for several processes at once.

        Raises: RootError
        """
        layout = Layout.below(root)
        if layout.root == self._home.root:
            self._home.initialise()
            self.check(layout.root)
            return
        self._home.roots.lstat()  # a home that is missing must not be made anew
        if self._entry(layout.root).exists():
            self.check(layout.root)
        layout.initialise()
        self._claim(layout)
        self._place(self._entry(layout.root), os.fsencode(layout.root), self._home)

    def all(self) -> Sequence[Path]:
        """As :meth:`registered`. Raises: RootError if one of them is not there as it was."""
        roots = self.registered()
        for root in roots:
            self.check(root)
        return roots

    def registered(self) -> Sequence[Path]:
        """The home and the roots that are registered."""
        roots = [self._home.root]
        with opened_directory(self._home.roots) as register:
            for entry in sorted(self._home.roots.iterdir()):
                root = Path(os.fsdecode(read_private_file(entry.name, register)))
                if self._entry(root) == entry:
                    roots.append(root)
        return roots

    def check(self, root: Path) -> None:
        """Raises: RootError if the root is not there as a part of this home."""
        layout = Layout.below(root)
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
        return RootUnavailableError(
            f"The root [{root}], which may hold session locations, cannot be used: {reason}. Bring its storage back; "
            f"or, if it is gone for good, remove [{self._entry(root)}]."
        )

    @staticmethod
    def _place(path: Path, content: bytes, layout: Layout) -> bool:
        """Writes a whole file under a name. Returns: False if it is there already."""
        staged = layout.staging / secrets.token_hex(16)
        with opened_directory(layout.staging) as staging:
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
    try:
        with opened_directory(layout.own) as own:
            return Path(os.fsdecode(read_private_file(layout.home.name, own)))
    except FileNotFoundError:
        return None
