"""The gateway treats each text of the golden corpus as before, so a change of its structure changes no behaviour."""

import pytest

from tests.golden.outcomes import digests, read_digests

pytestmark = pytest.mark.slow


def test_each_text_has_the_recorded_outcome():
    """If a difference is intended, check it with ``python -m tests.golden show``, and record it."""
    found, expected = digests(), read_digests()
    assert found.keys() == expected.keys()
    assert [group for group in expected if found[group] != expected[group]] == []
