"""The tiers of tests, chosen by ``--tier``.

The quick tier needs nothing but Python and Java. The slow tier has the tests with the marker ``slow``, and those that
need programs of the test cluster.
"""

import pytest

QUICK, SLOW = "quick", "slow"
_MARKERS_OF_SLOW_TESTS = ("slow", "cluster")


def quick_first(*values: object) -> list[object]:
    """Return the parameters of a test of which the quick tier runs only the first."""
    return [values[0], *(pytest.param(value, marks=pytest.mark.slow) for value in values[1:])]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--tier", choices=(QUICK, SLOW), help="run only the tests of a tier, and record their durations")


def tier_of(config: pytest.Config) -> str | None:
    """Return the tier that the user chose; None for a run of chosen tests."""
    tier: str | None = config.getoption("tier")
    return tier


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the tests of the other tier."""
    tier = tier_of(config)
    if tier is None:
        return
    selected, deselected = [], []
    for item in items:
        is_slow = any(item.get_closest_marker(name) for name in _MARKERS_OF_SLOW_TESTS)
        (selected if is_slow == (tier == SLOW) else deselected).append(item)
    items[:] = selected
    config.hook.pytest_deselected(items=deselected)
