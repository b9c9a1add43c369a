"""Errors that stop ``lodge``, each with one message for the person at the terminal.

::

    LodgeError
    ├── SettingError  a setting cannot be used; exit status 2
    └── StartError    something that Lodge needs does not start, or has stopped; exit status 1
"""


class LodgeError(Exception):
    """Base class of the errors of the command ``lodge``.

    Attributes:
        exit_status: The exit status of the command.
    """

    exit_status = 1


class SettingError(LodgeError):
    """A setting cannot be used."""

    exit_status = 2


class StartError(LodgeError):
    """Something that Lodge needs does not start, or has stopped."""
