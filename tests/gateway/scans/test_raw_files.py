"""What users of raw files expect: short rows, encodings, compression, patterns, and directories that grow."""

import bz2
import gzip
import threading

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException

pytestmark = pytest.mark.slow

FILES = 200


def rows(frame):
    return [tuple(row) for row in frame.collect()]


def with_arrow(codec):
    def compress(data):
        sink = pa.BufferOutputStream()
        with pa.CompressedOutputStream(sink, codec) as stream:
            stream.write(data)
        return sink.getvalue().to_pybytes()

    return compress


@pytest.fixture
def folder(lodge, tmp_path_factory):
    """An empty directory in the workspace ``dfs``."""
    path = lodge.files / tmp_path_factory.mktemp("raw").name
    path.mkdir()
    return path


def test_missing_field_of_a_short_row_is_null_with_get_or_min_fields(spark, folder):
    (folder / "a.csv").write_text("1,x,y\n2\n3,z\n")
    name = f"dfs.`{folder.name}`"
    expected = [("1", "y"), ("2", None), ("3", None)]
    assert rows(spark.sql(f"select columns[0], get(columns, 2) from {name} order by 1")) == expected
    assert rows(spark.sql(f"select columns[0], columns[2] from {name} with (min_fields = 3) order by 1")) == expected
    with pytest.raises(PySparkException, match="INVALID_ARRAY_INDEX"):
        spark.sql(f"select columns[2] from {name} with (min_fields = 2)").collect()
    with pytest.raises(PySparkException, match="min_fields requires files without a header"):
        spark.sql(f"select * from {name} with (min_fields = 2, header = true)").collect()


def test_compressed_text_and_json_in_another_encoding_are_read(spark, folder):
    codecs = {"gz": gzip.compress, "bz2": bz2.compress, "zst": with_arrow("zstd"), "lz4": with_arrow("lz4")}
    queries, expected = [], []
    for suffix, compress in codecs.items():
        (folder / f"a.csv.{suffix}").write_bytes(compress("name\nZoé\n".encode("utf-16")))
        (folder / f"a.json.{suffix}").write_bytes(compress('{"name": "Jürgen"}\n'.encode("utf-16")))
        for path, options, name in (("a.csv", "header = true, ", "Zoé"), ("a.json", "", "Jürgen")):
            scan = f"dfs.`{folder.name}/{path}.{suffix}` with ({options}encoding = 'utf-16')"
            queries.append(f"select '{path}.{suffix}' path, name from {scan}")
            expected.append((f"{path}.{suffix}", name))
    assert sorted(rows(spark.sql(" union all ".join(queries)))) == sorted(expected)


def test_describe_shows_the_columns_of_files(spark, folder):
    (folder / "a.json").write_text('{"n": 1, "m": {"x": "one"}}\n')
    described = rows(spark.sql(f"describe dfs.`{folder.name}/a.json`"))
    assert described == [("n", "bigint", None), ("m", "struct<x:string>", None)]
    (folder / "b.json").write_text('{"n": 1.5, "l": [true]}\n')
    assert rows(spark.sql(f"describe dfs.`{folder.name}`")) == [
        ("n", "double", None),
        ("m", "struct<x:string>", None),
        ("l", "array<boolean>", None),
    ]
    for text in ("desc extended dfs.`{}`", "describe query select * from dfs.`{}`"):
        assert ("m", "struct<x:string>", None) in rows(spark.sql(text.format(folder.name)))
    assert rows(spark.sql(f"show columns in dfs.`{folder.name}`")) == [("n",), ("m",), ("l",)]


def test_references_joined_by_commas_each_have_their_options(spark, folder):
    (folder / "a.csv").write_text("id,name\n1,x\n2,y\n")
    (folder / "b.json").write_text('{"id": 2, "n": 7}\n')
    a, b = (f"dfs.`{folder.name}/{name}`" for name in ("a.csv", "b.json"))
    text = (
        f"select a.name, b.n from {a} with (header = true, schema = 'id int, name string') a , {b} b where a.id = b.id"
    )
    assert rows(spark.sql(text)) == [("y", 7)]
    assert rows(spark.sql(f"select count(*) from {b} , {b} x , {a}")) == [(3,)]


def test_pattern_with_many_matches_reads_each_file_once(spark, folder):
    for number in range(FILES):
        directory = folder / f"d{number % 10}"
        directory.mkdir(exist_ok=True)
        (directory / f"{number:04}.csv").write_text(f"{number}\n")
        (directory / f"{number:04}.txt").write_text("not a match")
    query = "select count(*), count(distinct columns[0]), sum(cast(columns[0] as int)) from dfs.`{}/{}`"
    expected = {
        "*/*.csv": range(FILES),
        "**/*.csv": range(FILES),
        "d[0-4]/00?*.csv": [n for n in range(FILES) if n < 100 and n % 10 < 5],
    }
    for pattern, numbers in expected.items():
        found = rows(spark.sql(query.format(folder.name, pattern)))
        assert found == [(len(numbers), len(numbers), sum(numbers))], pattern


def test_directory_can_be_read_while_a_writer_adds_files(spark, folder):
    """A statement reads the files that its plan listed: each whole file once, and none that is being written."""
    (folder / "0.json").write_text('{"n": 0}\n')
    stop, written = threading.Event(), [0]

    def write():
        while not stop.is_set():
            number = written[0] + 1
            part = folder / f".{number}.json"
            part.write_text(f'{{"n": {number}}}\n')
            part.rename(folder / f"{number}.json")
            written[0] = number
            stop.wait(0.1)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        last = 0
        for _ in range(3):
            before = written[0]
            ((count, greatest),) = rows(spark.sql(f"select count(*), max(n) from dfs.`{folder.name}`"))
            assert before <= greatest <= written[0] + 1
            assert count > before
            assert greatest >= last
            last = greatest
        assert last > 1
    finally:
        stop.set()
        writer.join()
    count = written[0] + 1
    text = f"select count(*), count(distinct n) from dfs.`{folder.name}`"
    assert rows(spark.sql(text)) == [(count, count)]
