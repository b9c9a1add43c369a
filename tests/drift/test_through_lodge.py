"""Cases of drift as an unmodified client sees them: ``select *`` from a directory, through Lodge and Spark.

A statement takes most of a second, in which Spark starts Python several times. The tests therefore use a selection:

- The drifts of the original comparison run in CSV, JSON and Parquet.
- Most other drifts run in one format, a different one each time.
- The statements run in parallel in one session.
"""

from concurrent.futures import ThreadPoolExecutor

import pytest
from pyspark.errors import PySparkException
from pyspark.sql.pandas.types import from_arrow_type

from tests.drift.cases import CASES, in_any_order
from tests.drift.test_in_process import ERRORS

pytestmark = pytest.mark.slow

STATEMENTS_AT_ONCE = 4
COMPARED = tuple(dict.fromkeys(case.drift for case in CASES))[:9]
"""The drifts of the original comparison with other systems."""

SIMILAR = (
    *("a column vanishes and returns wider", "each of three", "a header without rows", "nothing but nulls"),
    *("null, then list", "empty list", "list of nulls", "a struct in a struct", "letter case of a member"),
    *("doubles written", "words for null", "bool, then int", "list, then int", "a member in a list", "an array, then"),
    *("declared: 1", "declared: 2026-01-02", "declared: 2147483648", "declared: 9007", "discovery sample"),
)
"""The drifts that are equal to another one from the view of Spark."""


def representatives():
    by_drift = {}
    for case in CASES:
        by_drift.setdefault(case.drift, []).append(case)
    for number, (drift, cases) in enumerate(by_drift.items()):
        if drift in COMPARED:
            yield from (case for case in cases if case.format not in ("orc", "arrow"))
        elif not drift.startswith(SIMILAR):
            yield cases[number % len(cases)]


SENT = list(representatives())


def statement(case, folder, **more):
    """Return the statement that scans a folder with the options and the declared types of a case."""
    given = {**case.options, **more}
    if case.declared is not None:
        given["schema"] = ", ".join(f"`{name}` {ddl(type_)}" for name, type_ in case.declared.items())
    options = ", ".join(f"{name} = '{value}'" for name, value in given.items())
    return f"select * from dfs.`{folder.name}`{f' with ({options})' * bool(options)}"


def ddl(type_):
    return from_arrow_type(type_).simpleString()


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
            text = statement(SENT[number], folder)
            results[number] = folder, pool.submit(lambda text=text: spark.sql(text).toArrow())
        yield results


@pytest.mark.parametrize("case", range(len(SENT)), ids=[str(case) for case in SENT])
def test_drift_gives_right_rows_or_the_expected_error(sent, case):
    folder, result = sent[case]
    case = SENT[case]
    if case.refused is None:
        table = result.result()
        assert in_any_order(table.to_pylist()) == in_any_order(case.rows)
        assert {name: ddl(table.schema.field(name).type) for name in case.types} == {
            name: ddl(type_) for name, type_ in case.types.items()
        }
        return
    with pytest.raises(PySparkException) as raised:
        result.result()
    assert raised.value.getCondition() == ERRORS[case.refused.error].condition
    for part in case.error_parts(folder=f"{folder.name}/"):
        assert part in str(raised.value)
