import re
import signal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import GatewayError
from gateway.sql.name_patterns import MAX_WILDCARDS, NamePattern


@given(st.text("abA*| .[", max_size=12), st.text("abA. [", max_size=8))
def test_pattern_matches_as_a_regular_expression_does(pattern: str, name: str) -> None:
    parts = (re.escape(part.strip()).replace(r"\*", ".*") for part in pattern.split("|"))
    expected = any(re.fullmatch(part, name, re.IGNORECASE) for part in parts)
    assert NamePattern(pattern).matches(name) is expected


def test_pattern_of_stars_is_compared_at_once() -> None:
    """Compare a pattern for which the search of a regular expression does not end within a lifetime."""
    signal.alarm(30)  # ends the process: nothing else can interrupt a regular expression
    try:
        assert not NamePattern("*a" * (MAX_WILDCARDS - 1) + "*b").matches("a" * 255)
    finally:
        signal.alarm(0)


@pytest.mark.parametrize("pattern", ["*a" * (MAX_WILDCARDS + 1), "a|" * (MAX_WILDCARDS + 1)])
def test_pattern_with_too_many_wildcards_is_refused(pattern: str) -> None:
    with pytest.raises(GatewayError, match=r"has \d+ characters . and .\. At most 32 are allowed") as error:
        NamePattern(pattern)
    assert error.value.condition == "LODGE_PATTERN_TOO_COMPLEX"
