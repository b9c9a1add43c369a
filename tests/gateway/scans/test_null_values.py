"""The option ``null_value`` makes the same fields null as ``nullValue`` of Spark's reader of CSV."""

import pytest

SCHEMA = (
    "a string, b int, c bigint, d double, e decimal(10, 2), f boolean, g date, h timestamp, i timestamp_ntz, j tinyint"
)
ROW = ["x", "1", "2", "1.5", "2.50", "true", "2026-01-02", "2026-01-02 03:04:05", "2026-01-02 03:04:05", "7"]


@pytest.fixture(scope="module")
def write(lodge):
    def write_file(name, *rows):
        (lodge.files / name).write_text("".join(",".join(row) + "\n" for row in rows))
        return name

    return write_file


def rows_with(mark):
    """Return rows with a mark in each column, and one of them quoted."""
    return [[mark if column == other else value for column, value in enumerate(ROW)] for other in range(len(ROW))]


def read(session, source):
    return sorted(map(tuple, session.sql(f"select to_json(struct(*)) from {source}").collect()))


@pytest.mark.slow
@pytest.mark.parametrize("mark", ["\\N", "NA", "-", "1", "-99999999999", "é", "null", "true"])
@pytest.mark.parametrize("quote", ["", '"'])
@pytest.mark.parametrize("ragged", ["error", "null"])
def test_columns_of_all_types_are_null_as_in_spark(request, mark, quote, ragged):
    spark, direct, write, lodge = map(request.getfixturevalue, ("spark", "direct", "write", "lodge"))
    rows = [list("abcdefghij"), ROW, *rows_with(f"{quote}{mark}{quote}")]
    if ragged == "null":  # the reader takes another way
        rows.append(ROW[:3])
    name = write("nulls.csv", *rows)
    options = f"header = true, null_value = '{mark}', ragged = '{ragged}', schema = '{SCHEMA}'".replace("\\", "\\\\")
    frame = direct.read.schema(SCHEMA).option("header", True).option("nullValue", mark).csv(str(lodge.files / name))
    expected = sorted(map(tuple, frame.selectExpr("to_json(struct(*))").collect()))
    assert read(spark, f"dfs.`{name}` with ({options})") == expected


def test_rows_without_header_have_nulls(spark, write):
    name = write("no_header.csv", ["a", "NA", '"NA"'], ["NA"], ["b"])
    query = f"select to_json(columns) from dfs.`{name}` with (null_value = 'NA', min_fields = 2)"
    found = sorted(text for (text,) in spark.sql(query).collect())
    assert found == ['["a",null,null]', '["b",null]', "[null,null]"]


def test_no_text_is_null_by_default(spark, write):
    name = write("texts.csv", ["a", "b"], ["\\N", ""], ["__HIVE_DEFAULT_PARTITION__", '""'], ["NULL", "null"])
    found = spark.sql(f"select a, b from dfs.`{name}` with (header = true)").collect()
    assert sorted(map(tuple, found)) == [("NULL", "null"), ("\\N", ""), ("__HIVE_DEFAULT_PARTITION__", "")]


def test_empty_text_can_be_null(spark, write):
    name = write("empty.csv", ["a", "b"], ["", '""'], ["x", "y"])
    found = spark.sql(f"select a, b from dfs.`{name}` with (header = true, null_value = '')").collect()
    assert sorted(map(tuple, found), key=str) == [("x", "y"), (None, None)]
