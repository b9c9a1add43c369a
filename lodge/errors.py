"""What stops ``lodge``, each as one message for the person at the terminal.

::

    LodgeError
    ├── SettingError  a setting cannot be used; exit status 2
    └── StartError    something that Lodge needs does not start, or stopped; exit status 1
"""


class LodgeError(Exception):
    exit_status = 1


class SettingError(LodgeError):
    exit_status = 2


class StartError(LodgeError):
    pass
