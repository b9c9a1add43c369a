"""The cases of drift on two executors. Each file of a directory has a task of its own."""

import pytest

from tests.drift.cases import in_any_order
from tests.drift.statements import SENT, check_result, sent_statements
from tests.drift.test_in_process import read

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def sent(request, lodge, spark, tmp_path_factory):
    with sent_statements(request, lodge, spark, tmp_path_factory, partition_bytes="64 KiB") as results:
        yield results


@pytest.mark.parametrize("case", range(len(SENT)), ids=[str(case) for case in SENT])
def test_two_executors_give_the_rows_or_the_error_of_one_process(sent, case):
    folder, result = sent[case]
    check_result(SENT[case], folder, result)
    if SENT[case].refused is None:
        alone = read(folder, SENT[case])
        assert in_any_order(result.result().to_pylist()) == in_any_order(alone.to_pylist())
