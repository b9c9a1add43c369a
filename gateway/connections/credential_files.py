"""Files with credentials of Lodge, which may be replaced while Lodge runs."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gateway.connections.backend_address import BackendAddress

_MAX_FILE_BYTES = 1024 * 1024
_TOKEN = re.compile(rb"[!-~]{1,16384}")


class CredentialFileError(ValueError):
    """A file of a setting that cannot be used.

    The message never contains a part of the file.

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


@dataclass(frozen=True, slots=True)
class BackendTokens:
    """The tokens of Lodge for its backends.

    Attributes:
        by_backend: The token of each backend, by its address in canonical form.
        default: The token for all other backends. Empty if they get none.
    """

    by_backend: Mapping[str, str] = field(default_factory=dict, repr=False)
    default: str = field(default="", repr=False)

    def find(self, backend: str) -> str:
        """Return the token for a backend, or an empty string if it gets none."""
        return self.by_backend.get(backend, self.default)


def read_backend_tokens(setting: str, path: Path) -> BackendTokens:
    """Return the tokens in a file.

    The file contains either one token for all backends, or one line for each backend with its address and its token.
    Empty lines and lines that begin with ``#`` are ignored.

    Raises:
        CredentialFileError: If the file cannot be read, or has another form.
    """
    lines = [line.split() for line in read_file(setting, path).splitlines()]
    lines = [words for words in lines if words and not words[0].startswith(b"#")]
    if len(lines) == 1 and len(lines[0]) == 1 and _TOKEN.fullmatch(lines[0][0]):
        return BackendTokens(default=lines[0][0].decode("ascii"))
    by_backend = {}
    for words in lines:
        try:
            address, token = words
            backend = str(BackendAddress.parse(address.decode("ascii")))
        except ValueError:
            break
        if backend in by_backend or not _TOKEN.fullmatch(token):
            break
        by_backend[backend] = token.decode("ascii")
    else:
        if by_backend:
            return BackendTokens(by_backend)
    raise CredentialFileError(
        setting,
        path,
        "it must contain one token for all backends, or one line with the address and the token of each backend. A "
        "token has at most 16,384 printable ASCII characters without spaces.",
    )
