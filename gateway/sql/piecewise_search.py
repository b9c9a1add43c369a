"""Searches in long texts that do not keep other threads waiting.

A search of a regular expression holds Python's lock until it ends: about a third of a second for each megabyte. A
search in pieces lets others run between the pieces.
"""

import re
from collections.abc import Iterable, Iterator

PIECE_CHARACTERS = 4 * 1024
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
    """Return whether a pattern matches somewhere in a text, see :func:`find`."""
    return find(pattern, text, 0) is not None


def find(pattern: re.Pattern[str], text: str, position: int) -> re.Match[str] | None:
    """Return the first match of a pattern at or after an offset.

    The end of a piece looks like the end of the text. So a pattern with an unlimited part must also match if the text
    ends in this part. All other matches must be shorter than 64 characters, with the characters that they look at.
    """
    for start in range(position, max(len(text), position + 1), PIECE_CHARACTERS):
        match = pattern.search(text, start, start + PIECE_CHARACTERS + _OVERLAP_CHARACTERS)
        if match is not None and match.start() < start + PIECE_CHARACTERS:
            return match
    return None


def end_of_run(elements: re.Pattern[str], text: str, position: int) -> int:
    """Return the end of a sequence of elements, see :func:`ends_in_run`."""
    match = elements.match(text, position, position + PIECE_CHARACTERS)
    if match is None or match.end() < position + PIECE_CHARACTERS - 1:
        return match.end() if match else position
    return max(ends_in_run(elements, text, match.end()), default=match.end())


def ends_in_run(elements: re.Pattern[str], text: str, position: int) -> Iterator[int]:
    """Yield the ends of the pieces of a sequence of elements.

    Args:
        elements: The pattern of the longest sequence of elements. An element that the end of a piece cuts must not
            match. If it is cut after more than one character, the sequence ends before it.
        text: The text.
        position: The offset at which the sequence begins.
    """
    end = position
    while (match := elements.match(text, end, end + PIECE_CHARACTERS)) and match.end() > end:
        end = match.end()
        yield end
