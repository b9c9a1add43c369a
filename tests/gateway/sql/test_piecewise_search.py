"""Searches in long texts let other threads run."""

import re
from typing import Any

from gateway.sql.piecewise_search import is_found
from tests.gateway.sql.noted_patterns import MOST_CHARACTERS, NotedPattern


def test_each_search_reads_few_characters() -> None:
    searched: list[int] = []
    pattern: Any = NotedPattern(re.compile("y"), searched)
    text = "x" * 100_000
    assert not is_found(pattern, text)
    assert max(searched) <= MOST_CHARACTERS
    assert sum(searched) >= len(text)
