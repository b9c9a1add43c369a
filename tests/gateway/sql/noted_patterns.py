"""Patterns that note how much text they may read while other threads wait."""

import re
import sys

MOST_CHARACTERS = 5000
"""The most characters that a pattern may read before another thread can run."""


class NotedPattern:
    """A pattern that notes how many characters it may read at once.

    Args:
        pattern: The pattern.
        noted: The list to which each search appends a number of characters.
    """

    def __init__(self, pattern: re.Pattern[str], noted: list[int]) -> None:
        self._pattern = pattern
        self._noted = noted

    def match(self, text: str, start: int, end: int = sys.maxsize) -> re.Match[str] | None:
        self._noted.append(min(end, len(text)) - start)
        return self._pattern.match(text, start, end)

    def search(self, text: str, start: int, end: int = sys.maxsize) -> re.Match[str] | None:
        self._noted.append(min(end, len(text)) - start)
        return self._pattern.search(text, start, end)
