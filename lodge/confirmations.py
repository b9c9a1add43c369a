"""Confirmation of a mass expiry with a file, for Lodge without Kubernetes."""

from collections.abc import Callable
from contextlib import suppress

from workspace.files.layout import Layout
from workspace.files.roots import home_of
from workspace.workspaces import Workspaces

CONFIRMATION_FILE = "confirm-mass-expiry"
_LONGEST_TOKEN_CHARACTERS = 100


def confirmation_reader(workspaces: Workspaces) -> Callable[[], str | None]:
    """Return a function that reads the confirmation token of a mass expiry.

    The function reads the file ``.lodge/confirm-mass-expiry``. It returns None if the file does not exist or cannot be
    read.
    """
    root = workspaces.temporary.root

    def read() -> str | None:
        with suppress(OSError, ValueError):
            file = Layout(home_of(root)).own / CONFIRMATION_FILE
            with file.open(encoding="ascii") as opened:
                return opened.read(_LONGEST_TOKEN_CHARACTERS).strip()
        return None

    return read
