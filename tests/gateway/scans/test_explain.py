"""``EXPLAIN`` and ``DataFrame.explain`` name the files, the readers and the schema's origin of each scan."""

import contextlib
import io
import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(lodge, tmp_path_factory):
    """A directory with two JSON files of 8 bytes."""
    folder = lodge.files / tmp_path_factory.mktemp("explained").name
    folder.mkdir()
    for name in ("a.json", "b.json"):
        (folder / name).write_text('{"a":1}\n')
    return folder


def explain(spark, statement):
    ((text,),) = spark.sql(statement).collect()
    return text


def printed(frame, mode="simple"):
    with contextlib.redirect_stdout(io.StringIO()) as output:
        frame.explain(mode=mode)
    return output.getvalue()


def scans(text):
    """Return the lines about scans, which are the end of an explanation."""
    _, title, rest = text.partition("== Lodge Scans ==\n")
    assert title, text
    return rest.strip().splitlines()


@pytest.mark.parametrize("mode", ["", "formatted", "cost"])
def test_statement_names_files_and_origin(spark, folder, mode):
    (folder / "new.json").write_text('{"a":2}\n')
    text = explain(spark, f"explain {mode} select a from dfs.`{folder.name}` where a > 1")
    assert text.startswith("== ")
    assert "BatchScan lodge" in text
    name, files, readers, schema = scans(text)
    assert name == f"dfs.`{folder.name}`"
    assert files == "  Files: 3 files (24 bytes)"
    assert readers == "  Readers: Lodge 3 files (24 bytes)"
    assert schema.startswith("  Schema: discovered in 3 files: ")


def test_origin_counts_remembered_files(spark, folder, tmp_path_factory):
    other = folder.parent / tmp_path_factory.mktemp("remembered").name
    other.mkdir()
    (other / "a.json").write_text('{"a":1}\n')
    os.utime(other / "a.json", (1_700_000_000, 1_700_000_000))  # a recent file is not remembered
    statement = f"explain select a from dfs.`{other.name}`"
    assert scans(explain(spark, statement))[-1] == "  Schema: discovered in 1 file: 1 examined, 0 remembered"
    spark.sql(f"select a from dfs.`{other.name}`").collect()
    (other / "b.json").write_text('{"a":1}\n')

    def origin():
        return scans(explain(spark, statement))[-1]

    assert origin() == "  Schema: discovered in 2 files: 1 examined, 1 remembered"


def test_data_frame_names_the_same(spark, folder):
    frame = spark.sql(f"select a from dfs.`{folder.name}`")
    assert scans(printed(frame))[0] == f"dfs.`{folder.name}`"
    assert scans(printed(frame, "formatted"))[0] == f"dfs.`{folder.name}`"


def test_each_scan_of_a_statement_is_named(spark, folder):
    text = explain(spark, f"explain select * from dfs.`{folder.name}/a.json` a, dfs.`{folder.name}/b.json` b")
    assert [line for line in scans(text) if not line.startswith(" ")] == [
        f"dfs.`{folder.name}/a.json`",
        f"dfs.`{folder.name}/b.json`",
    ]


def test_creation_of_a_table_names_its_scans(spark, folder):
    text = explain(spark, f"explain create temporary table t as select a from dfs.`{folder.name}`")
    assert scans(text)[0] == f"dfs.`{folder.name}`"


def test_declared_schema_is_named(spark, folder):
    text = explain(spark, f"explain select a from dfs.`{folder.name}` with (schema = 'a long')")
    assert scans(text)[1:] == [
        "  Files: listed by the backend",
        "  Readers: Lodge",
        "  Schema: declared",
    ]


def test_files_of_sparks_reader_are_counted(spark, folder, tmp_path_factory):
    other = folder.parent / tmp_path_factory.mktemp("parquet").name
    other.mkdir()
    pq.write_table(pa.table({"a": [1]}), other / "a.parquet")
    os.utime(other / "a.parquet", (0, 0))  # Spark does not read files that were modified a moment ago
    statement = f"explain select a from dfs.`{other.name}` with (spark_readers = true)"
    _, _, readers, _ = scans(explain(spark, statement))
    assert readers.startswith("  Readers: Spark 1 file (")


def test_explanations_without_scans_are_those_of_spark(spark):
    assert "Lodge" not in explain(spark, "explain select id from range(3)")
    assert "Lodge" not in printed(spark.range(3))


def test_statements_that_spark_cannot_explain_have_sparks_answer(spark, folder):
    lines = spark.sql(f"explain select nothing from dfs.`{folder.name}` where dir0 = '2026'").collect()
    assert lines[0].plan.startswith("Error occurred during query planning")
    assert any("UNRESOLVED_COLUMN" in line.plan for line in lines)
