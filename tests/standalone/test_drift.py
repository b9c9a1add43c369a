"""Cases of drift on two executors. Each file of a directory has a task of its own.

``tests/drift`` runs all cases in one process, and most of them through a gateway. Executors only change where a file is
read, so one case with rows and one refused case of each format suffice here.
"""

import pytest

from tests.drift.cases import in_any_order
from tests.drift.statements import SENT, check_result, sent_statements
from tests.drift.test_in_process import read

pytestmark = pytest.mark.slow

REPRESENTATIVES = sorted({(case.format, case.refused is None): number for number, case in enumerate(SENT)}.values())
"""The numbers of the last case with rows and the last refused case of each format."""


@pytest.fixture(scope="module")
def sent(request, lodge, spark, tmp_path_factory):
    with sent_statements(request, lodge, spark, tmp_path_factory, partition_bytes="64 KiB") as results:
        yield results


@pytest.mark.parametrize("case", REPRESENTATIVES, ids=[str(SENT[number]) for number in REPRESENTATIVES])
def test_two_executors_give_the_rows_or_the_error_of_one_process(sent, case):
    folder, result = sent[case]
    check_result(SENT[case], folder, result)
    if SENT[case].refused is None:
        alone = read(folder, SENT[case])
        assert in_any_order(result.result().to_pylist()) == in_any_order(alone.to_pylist())
