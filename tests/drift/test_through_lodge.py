"""Cases of drift as an unmodified client sees them."""

import pytest

from tests.drift.statements import SENT, check_result, sent_statements

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def sent(request, lodge, spark, tmp_path_factory):
    with sent_statements(request, lodge, spark, tmp_path_factory) as results:
        yield results


@pytest.mark.parametrize("case", range(len(SENT)), ids=[str(case) for case in SENT])
def test_drift_gives_right_rows_or_the_expected_error(sent, case):
    check_result(SENT[case], *sent[case])
