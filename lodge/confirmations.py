"""The file by which an operator confirms that many sessions at once are dead, where records are files."""

from collections.abc import Callable
from contextlib import suppress

from workspace.files.layout import Layout
from workspace.files.roots import home_of
from workspace.workspaces import Workspaces

CONFIRMATION_FILE = "confirm-mass-expiry"
_LONGEST_TOKEN_CHARACTERS = 100


def confirmation_in(workspaces: Workspaces) -> Callable[[], str | None]:
    """Reads the token of the file ``.lodge/confirm-mass-expiry``; None while there is no such file."""
    root = workspaces.temporary.root

    def read() -> str | None:
        with suppress(OSError, ValueError):
            file = Layout.below(home_of(root)).own / CONFIRMATION_FILE
            with file.open(encoding="ascii") as opened:
                return opened.read(_LONGEST_TOKEN_CHARACTERS).strip()
        return None

    return read
