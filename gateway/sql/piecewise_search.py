"""Searches in long texts that do not keep other threads waiting.

A search of a regular expression holds Python's lock until it ends: about a third of a second for each megabyte. A
search in pieces lets others run between the pieces.
"""

import re
from collections.abc import Iterable

_PIECE_CHARACTERS = 4 * 1024
"""What is searched in about a millisecond."""

_OVERLAP_CHARACTERS = 64
_LOWERED_CHARACTERS = 64 * 1024
"""The maximum length of a text that is lowered at once, which holds Python's lock."""


def may_contain(words: Iterable[str], text: str) -> bool:
    """Return whether a text may contain one of some lower-case words, in any case. A long text always may."""
    if len(text) > _LOWERED_CHARACTERS:
        return True
    lowered = text.lower()
    return any(word in lowered for word in words)


def is_found(pattern: re.Pattern[str], text: str) -> bool:
    """Return whether a pattern matches somewhere in a text.

    The end of a piece looks like the end of the text. So a pattern with an unlimited part must also match if the text
    ends in this part. All other matches must be shorter than 64 characters.
    """
    return any(
        pattern.search(text, start, start + _PIECE_CHARACTERS + _OVERLAP_CHARACTERS) is not None
        for start in range(0, max(len(text), 1), _PIECE_CHARACTERS)
    )
