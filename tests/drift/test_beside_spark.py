"""Lodge returns what Spark's own reader returns for random directories in which nothing drifts."""

from collections import Counter

import pytest

from tests.drift.beside_spark import SAME, SPARK_REFUSES, Comparison, compare

pytestmark = pytest.mark.slow

COUNT = 25


def test_random_directories_are_read_as_by_spark(lodge, spark_server):
    outcomes, differing = Counter(), []
    for number, outcome, details in compare(range(COUNT), lambda: Comparison(spark_server, lodge.address, lodge.files)):
        outcomes[outcome] += 1
        differing += [f"Directory {number}: {each}" for each in details if outcome != SPARK_REFUSES]
    assert not differing, "\n".join(differing)
    assert outcomes[SAME] > COUNT / 2
