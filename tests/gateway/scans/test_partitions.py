"""Directories named ``key=value`` give the columns, types and values that Spark's own readers give."""

import pytest
from pyspark.errors import AnalysisException, PySparkException

pytestmark = pytest.mark.slow

CASES = {
    "integers": ["k=1", "k=-7", "k=007"],
    "long integers": ["k=1", "k=3000000000"],
    "very long integers": ["k=1", "k=99999999999999999999"],
    "numbers": ["k=1", "k=1.5", "k=2e3x"],
    "doubles": ["k=1", "k=1.5"],
    "long integers and doubles": ["k=3000000000", "k=1.5"],
    "dates": ["k=2026-01-02", "k=2026-12-31"],
    "dates and times": ["k=2026-01-02", "k=2026-01-02 03:04:05"],
    "dates and numbers": ["k=2026-01-02", "k=1"],
    "no dates": ["k=2026-13-01"],
    "escaped numbers": ["k=%31"],
    "escaped times": ["k=2026-01-02 03%3A04%3A05"],
    "fractions of seconds": ["k=2026-01-02 03:04:05.1"],
    "not a number": ["k=1.5", "k=NaN", "k=Infinity"],
    "exponents": ["k=1.5e3", "k=.5e1"],
    "small exponents": ["k=15e-1"],
    "characters": ["k=é%FF", "k=%C3%A9"],
    "texts": ["k=a%20b", "k=1", "k=%25"],
    "nulls": ["k=1", "k=__HIVE_DEFAULT_PARTITION__"],
    "two columns": ["year=2026/month=01", "year=2026/month=11"],
    "escaped names": ["a%3Db=1", "a%3Db=2"],
}
COLUMNS = {"two columns": "year, month", "escaped names": "`a=b`"}
"""The columns of cases that have others than ``k``."""


@pytest.fixture
def folder(lodge, tmp_path_factory):
    path = lodge.files / tmp_path_factory.mktemp("partitions").name
    path.mkdir()
    return path


def write(folder, *directories):
    for number, name in enumerate(directories):
        path = folder / name / "a.json"
        path.parent.mkdir(parents=True)
        path.write_text(f'{{"a": {number}}}\n')


def test_columns_types_and_values_are_those_of_spark(spark, direct, folder):
    """One statement reads all directories. It returns values and types as texts, because the types differ."""
    for case, directories in CASES.items():
        write(folder / case, *directories)

    def values_and_types(session, place):
        queries = []
        for case in CASES:
            columns = f"struct(a, {COLUMNS.get(case, 'k')})"
            queries.append(f"select '{case}' case, a, to_json({columns}), typeof({columns}) from {place}/{case}`")
        return sorted(map(tuple, session.sql(" union all ".join(queries)).collect()))

    expected = values_and_types(direct, f"json.`{folder}")
    assert values_and_types(spark, f"dfs.`{folder.name}") == expected
    assert len(expected) == sum(map(len, CASES.values()))


def test_conditions_read_only_the_directories_that_they_need(spark, folder):
    write(folder, *(f"day=2026-01-{day:02}/hour={hour}" for day in (1, 2, 3) for hour in (1, 2)))
    table = f"dfs.`{folder.name}`"
    query = f"select count(a) from {table} where day > date'2026-01-01' and hour in (2, 3)"
    spark.sql(query).collect()
    (folder / "day=2026-01-01" / "hour=2" / "a.json").write_text("nothing")
    declared = "with (schema = 'a int, day date, hour int')"
    assert spark.sql(query.replace(table, f"{table} {declared}")).collect() == [(2,)]


def test_different_names_are_an_error_with_a_way_out(spark, folder):
    write(folder, "a=1", "b=1")
    with pytest.raises(AnalysisException, match=rf"'{folder.name}/b=1' in workspace 'dfs'") as raised:
        spark.table(f"dfs.`{folder.name}`").collect()
    assert raised.value.getCondition() == "LODGE_PARTITION_NAMES"
    without = spark.sql(f"select dir0, a from dfs.`{folder.name}` with (partitions = false) order by a")
    assert without.collect() == [("a=1", 0), ("b=1", 1)]


DECLARED = {
    "int": ["1", "007", "-0", "%31", "1e5", " 1", "1 ", "1.5", "99999999999", "a", "__HIVE_DEFAULT_PARTITION__"],
    "decimal(10, 2)": ["1", "1.5", "-0.0", "1e5", " 1", "1 ", "a"],
    "double": ["1", "1.5", "1e5", "NaN", "Infinity", " 1", "a"],
    "boolean": ["true", "TRUE", "False", "t", "1", "yes", ""],
    "date": ["2026-01-02", "2026-02-30", "1"],
    "timestamp": ["2026-01-02", "2026-01-02 03%3A04%3A05", "2026-01-02T03%3A04%3A05Z", "a"],
    "string": ["a%20b", "%31", " a ", "true"],
}


def test_declared_types_convert_values_as_in_spark(spark, direct, folder):
    """Values that Spark refuses are refused."""
    for type_, values in DECLARED.items():
        kind = type_.partition("(")[0]
        for number, value in enumerate(values):
            path = f"{kind}/{number}"
            write(folder / path, f"k={value}" if value else "k=__HIVE_DEFAULT_PARTITION__")
            results = []
            for session, table in (
                (direct, None),
                (spark, f"dfs.`{folder.name}/{path}` with (schema = 'a int, k {type_}')"),
            ):
                try:
                    if table is None:
                        frame = session.read.schema(f"a int, k {type_}").json(f"{folder}/{path}")
                        results.append(frame.selectExpr("cast(k as string) k").collect())
                    else:
                        results.append(session.sql(f"select cast(k as string) k from {table}").collect())
                except PySparkException:
                    results.append("refused")
            assert results[0] == results[1], (type_, value)
