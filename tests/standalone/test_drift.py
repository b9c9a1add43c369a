"""Cases of drift on two executors. Each file of a directory has a task of its own.

``tests/drift`` runs all cases in one process, and most of them through a gateway. Executors only change where a file is
read. These cases have files of all formats, and three of them return rows.
"""

import pytest

from tests.drift.statements import SENT, check_result, sent_statements

pytestmark = pytest.mark.slow

DRIFTS = {
    "ORC, Arrow and JSON of wider types",
    "Parquet, then JSON",
    "text without header beside JSON",
    "int, then text",
}
CASES = [number for number, case in enumerate(SENT) if case.drift in DRIFTS]


@pytest.fixture(scope="module")
def sent(request, lodge, spark, tmp_path_factory):
    with sent_statements(request, lodge, spark, tmp_path_factory, partition_bytes="64 KiB") as results:
        yield results


@pytest.mark.parametrize("case", CASES, ids=[str(SENT[number]) for number in CASES])
def test_two_executors_give_the_rows_or_the_error_of_one_process(sent, case):
    check_result(SENT[case], *sent[case])
