"""Confirmation of a mass expiry by a file, where session records are files."""

from collections.abc import Callable
from contextlib import suppress

from workspace.files.layout import Layout
from workspace.files.roots import home_of
from workspace.workspaces import Workspaces

CONFIRMATION_FILE = "confirm-mass-expiry"
_LONGEST_TOKEN_CHARACTERS = 100


def confirmation_reader(workspaces: Workspaces) -> Callable[[], str | None]:
    """Return a function that reads the token in ``.lodge/confirm-mass-expiry``.

    The function returns None if the file does not exist or cannot be read.
    """
    root = workspaces.temporary.root

    def read() -> str | None:
        with suppress(OSError, ValueError):
            file = Layout(home_of(root)).own / CONFIRMATION_FILE
            with file.open(encoding="ascii") as opened:
                return opened.read(_LONGEST_TOKEN_CHARACTERS).strip()
        return None

    return read
