"""The identity of an authenticated client.

Guarantees:

1. A principal and a group are not empty, have at most 1 KiB in UTF-8, and contain no control characters, no line
   separators and no lone surrogates. Therefore, they can be stored in records and log lines.
2. In settings, a name with the prefix ``group:`` always refers to a group. A principal whose own name has this prefix
   cannot be named in a setting.
"""

import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass

from workspace.identifiers import Principal

GROUP_PREFIX = "group:"
MAX_NAME_BYTES = 1024
_FORBIDDEN_CATEGORIES = frozenset({"Cc", "Cs", "Zl", "Zp"})  # none of their characters is printable


@dataclass(frozen=True, slots=True)
class Identity:
    """An authenticated client.

    Attributes:
        principal: The principal.
        groups: The groups of the principal.
        method: The kind of the method that authenticated the client, such as ``jwt``.
        expires_at: When the credentials expire, in seconds since the epoch. None if they do not expire.
    """

    principal: Principal
    groups: frozenset[str] = frozenset()
    method: str = ""
    expires_at: float | None = None

    def is_member(self, names: Iterable[str]) -> bool:
        """Return whether the names include the principal or one of its groups.

        Args:
            names: Principals, and groups in the form ``group:NAME``.
        """
        for name in names:
            if name.startswith(GROUP_PREFIX):
                if name.removeprefix(GROUP_PREFIX) in self.groups:
                    return True
            elif name == self.principal:
                return True
        return False


def problem_with_name(name: str) -> str | None:
    """Return why a string cannot be the name of a principal or a group, or None if it can."""
    if not name:
        return "it is empty"
    if not name.isprintable() and any(unicodedata.category(character) in _FORBIDDEN_CATEGORIES for character in name):
        return "it contains a control character or a line separator"
    if len(name.encode()) > MAX_NAME_BYTES:
        return f"it has more than {MAX_NAME_BYTES:,} bytes"
    return None
