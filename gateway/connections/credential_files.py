"""Files with credentials of Lodge itself. An administrator or Kubernetes replaces them while Lodge runs."""

import re
from pathlib import Path

_MAX_FILE_BYTES = 1024 * 1024
_TOKEN = re.compile(rb"[!-~]{1,16384}")


class CredentialFileError(ValueError):
    """A file of a setting that cannot be used. The message never contains a part of the file.

    Attributes:
        setting: The setting that contains the path.
        path: The file.
        reason: Why the file cannot be used, and what to do.
    """

    def __init__(self, setting: str, path: Path, reason: str) -> None:
        super().__init__(f"The file [{path}] of the setting {setting} cannot be used: {reason}")
        self.setting = setting
        self.path = path
        self.reason = reason


def read_file(setting: str, path: Path) -> bytes:
    """Return the content of a small file.

    Raises:
        CredentialFileError: If the file cannot be read, or is too large.
    """
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_FILE_BYTES + 1)
    except OSError as error:
        raise CredentialFileError(
            setting, path, f"{error.strerror}. Check the path and the permissions of the file."
        ) from None
    if len(content) > _MAX_FILE_BYTES:
        raise CredentialFileError(setting, path, f"it has more than {_MAX_FILE_BYTES:,} bytes. Check the path.")
    return content


def read_token(setting: str, path: Path) -> str:
    """Return the token in a file, without white space around it.

    Raises:
        CredentialFileError: If the file cannot be read, or does not contain one token.
    """
    token = read_file(setting, path).strip()
    if not _TOKEN.fullmatch(token):
        raise CredentialFileError(
            setting,
            path,
            "it must contain one token of at most 16,384 printable ASCII characters without spaces, and nothing else.",
        )
    return token.decode("ascii")
