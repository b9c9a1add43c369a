"""Malformed files: the error names the file, or an option says how to read it."""

import gzip

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException

MALFORMED = {
    "truncated.parquet": lambda path: path.write_bytes(path.read_bytes()[:-20]),
    "text.parquet": lambda path: path.write_text("a,b\n1,2\n"),
    "empty.orc": lambda path: path.write_bytes(b""),
    "zeros.csv": lambda path: path.write_bytes(bytes(1000)),
    "latin.csv": lambda path: path.write_bytes("ä,b\n".encode("latin-1")),
    "parquet.csv": lambda path: pq.write_table(pa.table({"a": [1]}), path),
    "plain.csv.gz": lambda path: path.write_text("a,b\n"),
    "truncated.csv.gz": lambda path: path.write_bytes(gzip.compress(b"a,b\n" * 1000)[:-10]),
    "deep.json": lambda path: path.write_text('{"a":' + "[" * 10_000 + "]" * 10_000 + "}\n"),
    "broken.jsonl": lambda path: path.write_text('{"a":1}\n{"a":\n'),
}


@pytest.fixture
def spark(shared_spark):
    return shared_spark


@pytest.fixture
def folder(lodge, tmp_path_factory):
    """An empty directory in the workspace ``dfs``."""
    path = lodge.files / tmp_path_factory.mktemp("malformed").name
    path.mkdir()
    return path


def rows(frame):
    return [tuple(row) for row in frame.collect()]


@pytest.mark.slow
def test_error_names_the_malformed_file_and_the_session_continues(spark, folder):
    for name, damage in MALFORMED.items():
        path = folder / name
        pq.write_table(pa.table({"a": [1, 2]}), path)
        damage(path)
        text = rf"\[LODGE_MALFORMED_FILE\] '{folder.name}/{name}' in workspace 'dfs'"
        with pytest.raises(PySparkException, match=text):
            spark.sql(f"select * from dfs.`{folder.name}/{name}`").collect()
    assert rows(spark.sql("select 1")) == [(1,)]


@pytest.mark.slow
def test_malformed_option_fails_skips_or_nulls_rows(spark, folder):
    (folder / "a.csv").write_text("id,s\n1,x\nno,y\n3,z\n")
    table = f"dfs.`{folder.name}/a.csv` with (header = true, schema = 'id int, s string', malformed = '%s')"
    with pytest.raises(
        PySparkException, match=rf"'{folder.name}/a.csv' .*line 3: column 'id' must be int, but the value is 'no'"
    ):
        spark.sql(f"select * from {table % 'fail'}").collect()
    assert rows(spark.sql(f"select * from {table % 'skip'}")) == [(1, "x"), (3, "z")]
    assert rows(spark.sql(f"select * from {table % 'null'}")) == [(1, "x"), (None, "y"), (3, "z")]


def test_error_names_the_one_malformed_file_of_a_directory(spark, folder):
    for number in range(5):
        pq.write_table(pa.table({"a": [number]}), folder / f"{number}.parquet")
    (folder / "3.parquet").write_bytes(b"PAR1")
    with pytest.raises(PySparkException, match=rf"'{folder.name}/3.parquet' in workspace 'dfs'"):
        spark.sql(f"select * from dfs.`{folder.name}`").collect()


@pytest.mark.slow
def test_changed_file_is_read_again_by_the_next_statement(spark, folder):
    file = folder / "a.jsonl"
    file.write_text('{"a":1}\n')
    table = f"dfs.`{folder.name}/a.jsonl`"
    assert rows(spark.sql(f"select * from {table}")) == [(1,)]
    file.write_text('{"b":"x"}\n{"b":"y"}\n')
    assert rows(spark.sql(f"select * from {table}")) == [("x",), ("y",)]
    file.unlink()
    with pytest.raises(PySparkException, match=r"no file or directory"):
        spark.sql(f"select * from {table}").collect()


@pytest.mark.slow
def test_column_of_the_file_wins_over_an_implicit_column(spark, folder):
    (folder / "a.jsonl").write_text('{"suffix":"Jr.","n":1}\n')
    table = f"dfs.`{folder.name}/a.jsonl`"
    assert rows(spark.sql(f"select * from {table}")) == [("Jr.", 1)]
    assert rows(spark.sql(f"select suffix, filename from {table}")) == [("Jr.", "a.jsonl")]


@pytest.mark.slow
def test_text_without_header_has_implicit_columns(spark, folder):
    (folder / "a.csv").write_text("1,x\n")
    assert rows(spark.sql(f"select columns[1], filename from dfs.`{folder.name}/a.csv`")) == [("x", "a.csv")]
