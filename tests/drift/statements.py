"""Cases of drift as an unmodified client sees them: ``select *`` from a directory, through Lodge and Spark.

A statement takes most of a second, in which Spark starts Python several times. The tests therefore use a selection:

- Most drifts run in one format, a different one each time.
- Each class of errors runs a few times.
- The statements run in parallel in one session.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql.connect.session import SparkSession
from pyspark.sql.pandas.types import from_arrow_type

from tests.conftest import LodgeProcess
from tests.drift.cases import CASES, Case, in_any_order
from tests.drift.test_in_process import ERRORS

STATEMENTS_AT_ONCE = 4
REFUSED_AT_MOST = 3
"""How many cases of a class of errors run."""

SIMILAR = (
    *("a column vanishes and returns wider", "each of three", "a header without rows", "nothing but nulls"),
    *("null, then list", "empty list", "list of nulls", "a struct in a struct", "letter case of a member"),
    *("doubles written", "words for null", "bool, then int", "list, then int", "a member in a list", "an array, then"),
    *("declared: 1", "declared: 2026-01-02", "declared: 2147483648", "declared: 9007", "discovery sample"),
    *("empty struct, then", "lists of several nulls", "members change places", "float, then", "int, then float"),
    *("leading zeros", "a byte order mark", "commas, then tabs", "text in several encodings", "policy widen"),
    *("policy truncate", "discovery first: a later struct", "discovery first: a column that is null"),
)
"""The drifts that are equal to another one from the view of Spark."""


def representatives() -> Iterator[Case]:
    by_drift: dict[str, list[Case]] = {}
    for case in CASES:
        by_drift.setdefault(case.drift, []).append(case)
    refused = Counter[str]()
    for number, (drift, cases) in enumerate(by_drift.items()):
        case = cases[number % len(cases)]
        error = "" if case.refused is None else case.refused.error
        if not drift.startswith(SIMILAR) and (not error or refused[error] < REFUSED_AT_MOST):
            refused[error] += 1
            yield case


SENT = list(representatives())


def statement(case: Case, folder: Path) -> str:
    """Return the statement that scans a folder with the options and the declared types of a case."""
    given = dict(case.options)
    if case.declared is not None:
        given["schema"] = ", ".join(f"`{name}` {ddl(type_)}" for name, type_ in case.declared.items())
    options = ", ".join(f"{name} = '{value}'" for name, value in given.items())
    return f"select * from dfs.`{folder.name}`{f' with ({options})' * bool(options)}"


def ddl(type_: pa.DataType) -> str:
    return str(from_arrow_type(type_).simpleString())


@contextmanager
def sent_statements(
    request: pytest.FixtureRequest,
    lodge: LodgeProcess,
    spark: SparkSession,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Mapping[int, tuple[Path, "Future[pa.Table]"]]]:
    """Start the statements of the selected tests. Yield the folder and the future result of each case, by its number.

    Args:
        request: The request of a fixture of the module whose tests have the parameter ``case``.
        lodge: The gateway.
        spark: The session in which the statements run.
        tmp_path_factory: Gives each case a new name for its folder.
    """
    module = request.module
    cases = {item.callspec.params["case"] for item in request.session.items if getattr(item, "module", None) is module}
    with ThreadPoolExecutor(STATEMENTS_AT_ONCE, thread_name_prefix="statements") as pool:
        results = {}
        for number in sorted(cases):
            folder = lodge.files / tmp_path_factory.mktemp("drift").name
            folder.mkdir()
            SENT[number].write(folder)
            text = statement(SENT[number], folder)
            results[number] = folder, pool.submit(lambda text=text: spark.sql(text).toArrow())
        yield results


def check_result(case: Case, folder: Path, result: "Future[pa.Table]") -> None:
    """Check that a statement returned the rows of a case, or raised its error."""
    if case.refused is None:
        table = result.result()
        assert in_any_order(table.to_pylist()) == in_any_order(case.rows)
        types = {name: ddl(table.schema.field(name).type) for name in case.types}
        assert types == {name: ddl(type_) for name, type_ in case.types.items()}
        return
    with pytest.raises(PySparkException) as raised:
        result.result()
    assert raised.value.getCondition() == ERRORS[case.refused.error].condition
    for part in case.error_parts(folder=f"{folder.name}/"):
        assert part in str(raised.value)
