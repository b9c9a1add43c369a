"""Files with credentials of Lodge, which may be replaced while Lodge runs."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gateway.connections.backend_address import BackendAddress
from gateway.reloading.files import read_file
from gateway.reloading.last_valid_value import SourceError

_MAX_FILE_BYTES = 1024 * 1024
_TOKEN = re.compile(rb"[!-~]{1,16384}")


@dataclass(frozen=True, slots=True)
class CredentialFile:
    """A small file with credentials.

    Attributes:
        setting: The setting that contains the path.
        path: The path.
    """

    setting: str
    path: Path

    def __str__(self) -> str:
        return f"The file [{self.path}] of the setting {self.setting}"

    def read(self) -> bytes:
        """Return the content.

        Raises:
            SourceError: If the file cannot be read, or is too large.
        """
        return read_file(self.path, label=str(self), max_bytes=_MAX_FILE_BYTES)

    def error(self, reason: str) -> SourceError:
        """Return the error that the file cannot be used.

        Args:
            reason: Why the file cannot be used, and what to do. It never contains a part of the file.
        """
        return SourceError(f"{self} cannot be used: {reason}")


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


def read_backend_tokens(file: CredentialFile) -> BackendTokens:
    """Return the tokens in a file.

    The file contains either one token for all backends, or one line for each backend with its address and its token.
    Empty lines and lines that begin with ``#`` are ignored.

    Raises:
        SourceError: If the file cannot be read, or has another form.
    """
    lines = [line.split() for line in file.read().splitlines()]
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
    raise file.error(
        "it must contain one token for all backends, or one line with the address and the token of each backend. A "
        "token has at most 16,384 printable ASCII characters without spaces.",
    )
