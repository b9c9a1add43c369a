"""Errors that stop ``lodge``. Each has one message for the person at the terminal.

::

    LodgeError
    ├── SettingError     a setting cannot be used; exit status 2
    ├── StartError       a component that Lodge needs did not start or has stopped; exit status 1
    ├── TokenError       a token file cannot be read or changed; exit status 1
    ├── DefinitionError  the definition of ConnectSession was not applied; exit status 1
    └── CheckError       a gateway does not do what a client needs; exit status 1
"""

import sys


class LodgeError(Exception):
    """Base class for errors that stop the command ``lodge``.

    Attributes:
        exit_status: The exit status of the command.
    """

    exit_status = 1


class SettingError(LodgeError):
    """Raised if the value of a setting cannot be used."""

    exit_status = 2


class StartError(LodgeError):
    """Raised if a component that Lodge needs did not start or has stopped."""


class TokenError(LodgeError):
    """Raised if a token file cannot be read or changed."""


class CheckError(LodgeError):
    """Raised if a gateway does not do what a client needs."""


class DefinitionError(LodgeError):
    """Raised if the definition of ConnectSession was not applied."""


def report(error: LodgeError) -> int:
    """Print an error for the person at the terminal, and return the exit status."""
    for line in str(error).splitlines():
        print(f"lodge: {line}", file=sys.stderr)
    return error.exit_status
