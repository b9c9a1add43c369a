"""The gateway treats each text of the golden corpus as before, so a change of its structure changes no behaviour."""

import pytest

from tests.golden.outcomes import digests, read_digests
from tests.maven import MissingMavenError
from tests.skips import skip_missing

pytestmark = pytest.mark.slow


def test_each_text_has_the_recorded_outcome():
    """If a difference is intended, check it with ``python -m tests.golden show``, and record it."""
    try:
        found, expected = digests(), read_digests()
    except MissingMavenError as missing:
        skip_missing(str(missing))
    assert found.keys() == expected.keys()
    assert [group for group in expected if found[group] != expected[group]] == []
