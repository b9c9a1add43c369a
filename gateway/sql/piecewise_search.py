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
    """Return whether a pattern matches somewhere in a text.

    The end of a piece looks like the end of the text. So a pattern with an unlimited part must also match if the text
    ends in this part. All other matches must be shorter than 64 characters.
    """
    return any(
        pattern.search(text, start, start + PIECE_CHARACTERS + _OVERLAP_CHARACTERS) is not None
        for start in range(0, max(len(text), 1), PIECE_CHARACTERS)
    )


def find(pattern: re.Pattern[str], text: str, position: int) -> re.Match[str] | None:
    """Return the first match of a pattern at or after an offset. A match and what it looks at are less than 64 long."""
    for start in range(position, len(text), PIECE_CHARACTERS):
        match = pattern.search(text, start, start + PIECE_CHARACTERS + _OVERLAP_CHARACTERS)
        if match is not None and match.start() < start + PIECE_CHARACTERS:
            return match
    return None


def end_of_run(elements: re.Pattern[str], text: str, position: int) -> int:
    """Return the end of the longest sequence of elements that begins at an offset, see :func:`ends_in_run`."""
    match = elements.match(text, position, position + PIECE_CHARACTERS)
    if match is None or match.end() < position + PIECE_CHARACTERS - 1:
        return match.end() if match else position
    return max(ends_in_run(elements, text, match.end()), default=match.end())


def ends_in_run(elements: re.Pattern[str], text: str, position: int) -> Iterator[int]:
    """Yield the ends of the pieces of the longest sequence of elements that begins at an offset.

    Args:
        elements: The pattern of such a sequence. It must match the same in one piece as in two. It must not match an
            element whose second character is in the next piece. Elements have one or two characters.
        text: The text.
        position: The offset.
    """
    end = position
    while (match := elements.match(text, end, end + PIECE_CHARACTERS)) and match.end() > end:
        end = match.end()
        yield end
