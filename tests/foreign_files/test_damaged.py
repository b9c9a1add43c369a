"""A scan of a damaged file fails, or returns the rows of the undamaged file, or what Spark's reader returns."""

from collections import Counter

import pytest

from tests.foreign_files.damaged import DIFFERENT, FAILURES, SOURCES, has_failed, run_cases

pytestmark = pytest.mark.slow

CASES = range(0, 3 * len(SOURCES), 7)
"""About 150 cases, of different files."""


def test_damaged_files_are_refused_or_read_as_by_spark(spark_server, tmp_path):
    results = list(run_cases(CASES, tmp_path, spark_server))
    outcomes = Counter(result.outcome for result in results)
    judged = [str(result) for result in results if result.outcome in {*FAILURES, DIFFERENT}]
    assert not has_failed(outcomes), "\n".join(judged)
    assert len(outcomes) > 2  # otherwise the damage is not that which matters
