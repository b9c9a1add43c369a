"""Reads a small file, with a limit of size."""

import os
from collections.abc import Callable
from pathlib import Path

from gateway.reloading.last_valid_value import SourceError


def _accept(status: os.stat_result) -> None:
    """Accept a file with any owner and mode."""


def read_file(
    path: Path,
    *,
    label: str,
    max_bytes: int,
    if_unreadable: str = "Check the path and its permissions.",
    if_too_large: str = "Check the path.",
    check: Callable[[os.stat_result], None] = _accept,
) -> bytes:
    """Return the content of a file.

    Args:
        path: The path of the file.
        label: The file, for messages. It begins with a capital letter, such as ``The token file [/etc/lodge/tokens]``.
        max_bytes: The maximum size of the file.
        if_unreadable: What to do if the file cannot be read, for messages.
        if_too_large: What to do if the file is larger than the maximum, for messages.
        check: Checks the owner and the mode of the file before it is read. It raises SourceError.

    Raises:
        SourceError: If the file cannot be read, is too large, or does not pass the check.
    """
    try:
        with path.open("rb") as file:
            check(os.fstat(file.fileno()))
            content = file.read(max_bytes + 1)
    except OSError as error:
        raise SourceError(f"{label} cannot be read: {error.strerror}. {if_unreadable}") from None
    if len(content) > max_bytes:
        raise SourceError(f"{label} has more than {max_bytes:,} bytes. {if_too_large}")
    return content
