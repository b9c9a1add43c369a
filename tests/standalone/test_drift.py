"""The cases of drift on two executors. Each file of a directory has a task of its own."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from pyspark.errors import PySparkException

from tests.drift.cases import in_any_order
from tests.drift.test_in_process import ERRORS, read
from tests.drift.test_through_lodge import SENT, ddl, statement

pytestmark = pytest.mark.slow

STATEMENTS_AT_ONCE = 4
FILE_PER_TASK = {"partition_bytes": "64 KiB"}


@pytest.fixture(scope="module")
def sent(request, lodge, spark, tmp_path_factory):
    """Start the statements of the selected tests, and yield the folder and the future result of each case."""
    cases = {item.callspec.params["case"] for item in request.session.items if item.module is request.module}
    with ThreadPoolExecutor(STATEMENTS_AT_ONCE, thread_name_prefix="statements") as pool:
        results = {}
        for number in sorted(cases):
            folder = lodge.files / tmp_path_factory.mktemp("drift").name
            folder.mkdir()
            SENT[number].write(folder)
            text = statement(SENT[number], folder, **FILE_PER_TASK)
            results[number] = folder, pool.submit(lambda text=text: spark.sql(text).toArrow())
        yield results


@pytest.mark.parametrize("case", range(len(SENT)), ids=[str(case) for case in SENT])
def test_two_executors_give_the_rows_or_the_error_of_one_process(sent, case):
    folder, result = sent[case]
    case = SENT[case]
    if case.refused is None:
        alone, table = read(folder, case), result.result()
        assert in_any_order(table.to_pylist()) == in_any_order(alone.to_pylist()) == in_any_order(case.rows)
        assert {name: ddl(table.schema.field(name).type) for name in case.types} == {
            name: ddl(type_) for name, type_ in case.types.items()
        }
        return
    with pytest.raises(PySparkException) as raised:
        result.result()
    assert raised.value.getCondition() == ERRORS[case.refused.error].condition
    for part in case.error_parts(folder=f"{folder.name}/"):
        assert part in str(raised.value)
