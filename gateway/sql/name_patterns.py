"""Patterns of ``SHOW TABLES``: ``*`` matches any characters, ``|`` separates alternatives, and case is ignored.

Spark makes a regular expression of such a pattern. Lodge never does, because the comparison of a regular expression
with a name can take longer than any session lives. Other characters than ``*`` and ``|`` have no meaning of their own.

Guarantee: a comparison with a name searches the name at most ``MAX_WILDCARDS + 1`` times.

Source: Spark's ``SHOW TABLES``.
"""

from collections.abc import Sequence
from typing import Final

from gateway.errors import GatewayError

MAX_WILDCARDS: Final = 32
"""The maximum number of ``*`` and ``|`` in a pattern."""


class NamePattern:
    """A pattern that is compared with many names.

    Args:
        text: The pattern.

    Raises:
        GatewayError: If the pattern has too many wildcards.
    """

    def __init__(self, text: str) -> None:
        wildcards = text.count("*") + text.count("|")
        if wildcards > MAX_WILDCARDS:
            raise GatewayError(
                "LODGE_PATTERN_TOO_COMPLEX",
                "54001",
                f"A pattern for names has {wildcards} characters * and |. At most {MAX_WILDCARDS} are allowed. "
                "Use a shorter pattern, or several statements.",
            )
        self._alternatives = [part.strip().lower().split("*") for part in text.split("|")]

    def matches(self, name: str) -> bool:
        """Return whether one of the alternatives matches the whole name."""
        name = name.lower()
        return any(_matches(texts, name) for texts in self._alternatives)


def _matches(texts: Sequence[str], name: str) -> bool:
    """Return whether a name consists of the texts, in this order, with any characters between them.

    The first text begins the name, and the last one ends it. Each other one is taken at its first place, because a star
    matches everything up to the next text.
    """
    first, *others = texts
    if not others:
        return name == first
    last = others.pop()
    position, end = len(first), len(name) - len(last)
    if position > end or not (name.startswith(first) and name.endswith(last)):
        return False
    for text in others:
        found = name.find(text, position, end)
        if found < 0:
            return False
        position = found + len(text)
    return True
