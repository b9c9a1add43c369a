"""Searches in long texts let other threads run."""

import re
from typing import Any

from gateway.sql.piecewise_search import is_found

MOST_CHARACTERS = 5000


class NotedPattern:
    """A pattern that notes how many characters each search reads."""

    def __init__(self) -> None:
        self.searched: list[int] = []

    def search(self, text: str, start: int, end: int) -> re.Match[str] | None:
        self.searched.append(min(end, len(text)) - start)
        return None


def test_each_search_reads_few_characters() -> None:
    pattern: Any = NotedPattern()
    text = "x" * 100_000
    assert not is_found(pattern, text)
    assert max(pattern.searched) <= MOST_CHARACTERS
    assert sum(pattern.searched) >= len(text)
