"""Scans of raw files by the name of a workspace, and the paths that are refused."""

import datetime
import os
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import AnalysisException, PySparkException


def rows(frame):
    return [tuple(row) for row in frame.collect()]


@pytest.fixture
def spark(shared_spark):
    return shared_spark


@pytest.fixture
def folder(lodge, tmp_path_factory):
    """An empty directory in the workspace ``dfs``."""
    path = lodge.files / tmp_path_factory.mktemp("folder").name
    path.mkdir()
    return path


@pytest.mark.slow
def test_every_route_to_a_name_reads_files_and_directories(spark, folder):
    (folder / "a.csv").write_text("1,x\n")
    (folder / "b.csv").write_text("2,y\n3\n")
    name = f"dfs.`{folder.name}`"
    assert rows(spark.sql(f"select size(columns) from {name} order by columns[0]")) == [(2,), (2,), (1,)]
    assert spark.table(f"dfs.`{folder.name}/a.csv`").count() == 1
    assert spark.read.table(name).columns == ["columns"]
    joined = f"select count(*) from dfs.`{folder.name}/a.csv` a, {name} b where a.columns[0] < b.columns[0]"
    assert rows(spark.sql(joined)) == [(2,)]
    assert rows(spark.sql(f"select x from (select columns[1] x from dfs . /*c*/ `{folder.name}/a.csv`)")) == [("x",)]


@pytest.mark.slow
def test_scan_creates_no_name_in_the_session(spark, folder):
    (folder / "a.csv").write_text("1\n")
    spark.sql(f"select * from dfs.`{folder.name}/a.csv`").collect()
    assert spark.catalog.listTables() == []


def test_path_out_of_the_workspace_is_refused(spark):
    for path in ("../../etc/passwd", "/etc/passwd", "a/../../x.csv", "..", "./../x.csv"):
        for read in (lambda name: spark.sql(f"select * from {name}"), lambda name: spark.table(name).collect()):
            with pytest.raises(AnalysisException, match="is not allowed") as raised:
                read(f"dfs.`{path}`")
            assert raised.value.getCondition() == "LODGE_PATH_REFUSED"
            assert path in str(raised.value)
    assert rows(spark.sql("select 1")) == [(1,)]


def test_link_out_of_the_workspace_is_refused(spark, folder, tmp_path):
    (tmp_path / "secret.csv").write_text("secret\n")
    (folder / "link.csv").symlink_to(tmp_path / "secret.csv")
    (folder / "directory").symlink_to(tmp_path)
    for path in ("link.csv", "directory/secret.csv", "directory"):
        with pytest.raises(AnalysisException, match="leads out of the workspace"):
            spark.sql(f"select * from dfs.`{folder.name}/{path}`")
    assert rows(spark.sql("select 1")) == [(1,)]


@pytest.mark.slow
def test_no_path_reaches_session_locations_and_records(lodge, spark, connect):
    other = connect()
    other.sql("create temporary table secret as select 1 a").collect()
    paths = [".lodge", ".lodge/sessions", ".", *(path.name for path in lodge.locations())]
    for path in paths:
        with pytest.raises(AnalysisException, match="belongs to Lodge"):
            spark.sql(f"select * from dfs.tmp.`{path}`")
    directory = lodge.root / "links"
    directory.mkdir()
    for number, location in enumerate(lodge.locations()):
        (directory / str(number)).symlink_to(location)
    for path in ("links", "links/*/*/*.parquet", "links/0"):
        with pytest.raises(PySparkException, match=r"scans may not read|belongs to Lodge|PathNotFoundError"):
            spark.sql(f"select * from dfs.tmp.`{path}`").collect()
    shutil.rmtree(directory)


def test_error_names_a_missing_file_and_an_unknown_format(spark, folder):
    with pytest.raises(AnalysisException, match=r"no file or directory \[nope.csv\]") as raised:
        spark.sql("select * from dfs.`nope.csv`")
    assert raised.value.getCondition() == "TABLE_OR_VIEW_NOT_FOUND"
    (folder / "a.xyz").write_text("1\n")
    with pytest.raises(AnalysisException, match=r"The supported suffixes are \.arrow, "):
        spark.sql(f"select * from dfs.`{folder.name}/a.xyz`")
    with pytest.raises(AnalysisException, match="in backquotes"):
        spark.sql("select * from dfs.amount.csv")


@pytest.mark.slow
def test_files_of_several_formats_are_read_with_their_types(spark, folder):
    (folder / "a.jsonl").write_text('{"n": 1, "m": {"x": "one"}}\n{"n": 2, "l": [1, 2]}\n')
    pq.write_table(pa.table({"n": [3, 4], "l": [[3], None]}), folder / "b.parquet")
    frame = spark.sql(f"select n, m.x, l from dfs.`{folder.name}` order by n")
    assert rows(frame) == [(1, "one", None), (2, None, [1, 2]), (3, None, [3]), (4, None, None)]
    assert rows(spark.sql(f"select sum(n) from dfs.`{folder.name}/*.parquet`")) == [(7,)]
    assert rows(spark.sql(f"select count(*) from dfs.`{folder.name}`")) == [(4,)]
    assert spark.table(f"dfs.`{folder.name}/b.parquet`").columns == ["n", "l"]


@pytest.mark.slow
def test_with_clause_sets_options_and_schema(spark, folder):
    (folder / "a.csv").write_text("id;when\n1;2026-11-21\n2;\n")
    name = f"dfs.`{folder.name}/a.csv`"
    assert rows(spark.sql(f"select ID, when from {name} with (header = true, delimiter = ';') t")) == [
        ("1", "2026-11-21"),
        ("2", ""),
    ]
    typed = f"{name} with (header = true, delimiter = ';', schema = 'id int, when date')"
    assert rows(spark.sql(f"select sum(t.id), max(when) from {typed} as t")) == [(3, datetime.date(2026, 11, 21))]
    with pytest.raises(AnalysisException, match="a value: a quoted string"):
        spark.sql(f"select * from {name} with (header = )")
    with pytest.raises(AnalysisException, match="root"):
        spark.sql(f"select * from {name} with (root = '/')")
    with pytest.raises(PySparkException, match="nonsense"):
        spark.sql(f"select * from {name} with (nonsense = 1, header = true)").collect()


@pytest.mark.slow
def test_implicit_columns_name_the_file_and_its_directories(spark, folder):
    for year in (2025, 2026):
        (folder / str(year)).mkdir()
        (folder / str(year) / "a.jsonl").write_text(f'{{"n": {year}}}\n')
    name = f"dfs.`{folder.name}`"
    assert rows(spark.sql(f"select n, dir0, filename from {name} order by n")) == [
        (2025, "2025", "a.jsonl"),
        (2026, "2026", "a.jsonl"),
    ]
    assert spark.sql(f"select * from {name}").columns == ["n", "dir0"]


@pytest.mark.slow
def test_sql_view_over_a_file_is_refused(restored_spark):
    spark = restored_spark
    with pytest.raises(AnalysisException, match="view cannot read a file by its workspace name"):
        spark.sql("create temporary view v as select * from dfs.`amount.csv`")
    spark.table("dfs.`amount.csv`").createOrReplaceTempView("v")
    assert rows(spark.sql("select count(*) from v")) == [(4,)]


def test_loop_of_links_and_pipe_fail_without_hanging(spark, folder):
    (folder / "loop.csv").symlink_to(folder / "loop.csv")
    os.mkfifo(folder / "pipe.csv")
    for name in ("loop.csv", "pipe.csv"):
        with pytest.raises(Exception, match=r"loop\.csv|pipe\.csv"):
            spark.sql(f"select * from dfs.`{folder.name}/{name}`").collect()


@pytest.mark.slow
def test_data_source_reads_a_path_of_a_workspace(spark, folder):
    (folder / "a.csv").write_text("id;name\n1;x\n2;y\n")
    path = f"dfs.`{folder.name}/a.csv`"
    options = {"header": True, "delimiter": ";"}
    assert rows(spark.read.format("lodge").options(**options).load(path).orderBy("ID")) == [("1", "x"), ("2", "y")]
    assert rows(spark.read.format("Lodge").load(path, schema="id int", **options).agg({"id": "sum"})) == [(3,)]
    by_option = spark.read.format("lodge").options(**options, path=path).load()
    assert rows(by_option.select("name").orderBy("name")) == [("x",), ("y",)]
    assert rows(spark.read.option("header", True).option("delimiter", ";").table(path).select("name")) == [
        ("x",),
        ("y",),
    ]


@pytest.mark.slow
def test_view_of_the_data_source_lasts_as_long_as_the_session(restored_spark, folder):
    (folder / "it's.csv").write_text("id;name\n1;x\n2;y\n")
    for definition in ("v", "v (id int, name string)"):
        restored_spark.sql(
            f"create or replace temporary view {definition} using Lodge "
            f"options (Path 'dfs.`{folder.name}/it\\'s.csv`', header true, delimiter ';')"
        )
        assert rows(restored_spark.sql("select int(id), name from v order by id")) == [(1, "x"), (2, "y")]
    assert rows(restored_spark.table("v").where("id = 2").select("name")) == [("y",)]


def test_data_source_reads_only_paths_of_workspaces(lodge, spark, folder, tmp_path):
    (tmp_path / "secret.csv").write_text("secret\n")
    for name in (str(tmp_path / "secret.csv"), "a.csv", "dfs.`../secret.csv`", "dfs.tmp.`.lodge`"):
        with pytest.raises(AnalysisException, match="LODGE_PATH_REFUSED"):
            spark.read.format("lodge").load(name).collect()
    for options in ({"root": str(tmp_path)}, {"workspace": "dfs"}, {"excluded": "/"}, {"mentioned": "[]"}):
        with pytest.raises(AnalysisException, match="LODGE_SCAN_OPTIONS"):
            spark.read.format("lodge").options(**options).load("dfs.`amount.csv`").collect()
        (name, value), *_ = options.items()
        with pytest.raises(AnalysisException, match="LODGE_SCAN_OPTIONS"):
            spark.sql(f"create temporary view w using lodge options (path 'dfs.`amount.csv`', {name} '{value}')")
    with pytest.raises(AnalysisException, match="one path of a workspace"):
        spark.read.format("lodge").options(root=str(tmp_path), workspace="dfs").load().collect()
    with pytest.raises(AnalysisException, match="one path of a workspace"):
        spark.sql(f"create temporary view w using lodge options (root '{tmp_path}', workspace 'dfs')")


@pytest.mark.slow
def test_times_follow_the_time_zone_of_the_session(restored_spark, folder):
    spark = restored_spark
    (folder / "a.csv").write_text("at\n2026-07-01 12:00:00\n2026-07-01T12:00:00+02:00\n")
    at = pa.array([1_750_000_000_000_001, None], pa.timestamp("us", "UTC"))
    pq.write_table(pa.table({"i": [1, 2], "tz": at}), folder / "a.parquet")
    local, instants = (f"dfs.`{folder.name}/a.{suffix}`" for suffix in ("csv", "parquet"))
    for zone, noon_in_utc in (("America/New_York", 16), ("GMT+2", 10)):
        spark.conf.set("spark.sql.session.timeZone", zone)
        scan = f"{local} with (header = true, schema = 'at timestamp')"
        moments = [row[0] for row in spark.sql(f"select unix_seconds(at) from {scan}").collect()]
        assert [moment // 3600 % 24 for moment in moments] == [noon_in_utc, 10]
        frame = spark.read.format("lodge").option("header", True).schema("at TIMESTAMP").load(local)
        assert [row[0] for row in frame.selectExpr("unix_seconds(at)").collect()] == moments
        for scan in (instants, f"{instants} with (schema = 'i bigint, suffix string, tz timestamp')"):
            found = spark.sql(f"select i, unix_micros(tz), suffix from (select i, suffix, tz from {scan})")
            assert rows(found) == [(1, 1_750_000_000_000_001, "parquet"), (2, None, "parquet")]
        without_columns = f"select count(*) from {instants} where current_timestamp() is not null"
        assert rows(spark.sql(without_columns)) == [(2,)]
    in_zone = f"{local} with (header = true, schema = 'at timestamp', time_zone = 'UTC')"
    assert rows(spark.sql(f"select min(hour(at)) from {in_zone}")) == [(12,)]


@pytest.mark.slow
def test_format_option_is_accepted_in_any_letter_case(spark, folder):
    (folder / "a").write_text('{"n": 1}\n')
    assert rows(spark.sql(f"select n from dfs.`{folder.name}/a` with (ForMat = 'json')")) == [(1,)]


@pytest.mark.slow
def test_directory_with_a_text_suffix_has_the_columns_of_its_files(spark, folder):
    (folder / "a.csv").mkdir()
    (folder / "a.csv" / "0.json").write_text('{"n": 1}\n')
    (folder / "b.csv" / "in").mkdir(parents=True)
    (folder / "b.csv" / "in" / "0.csv").write_text("x\n")
    assert rows(spark.sql(f"select * from dfs.`{folder.name}/a.csv`")) == [(1,)]
    assert rows(spark.sql(f"select * from dfs.`{folder.name}/b.csv`")) == [(["x"], "in")]


@pytest.mark.slow
def test_filters_skip_row_groups(spark, folder):
    data = pa.table({"a": range(1000), "b": ["x"] * 1000})
    pq.write_table(data, folder / "a.parquet", row_group_size=100, compression="none", use_dictionary=False)
    content = bytearray((folder / "a.parquet").read_bytes())
    last = pq.ParquetFile(folder / "a.parquet").metadata.row_group(9).column(1).data_page_offset
    content[last : last + 8] = b"\xff" * 8
    (folder / "a.parquet").write_bytes(content)
    name = f"dfs.`{folder.name}/a.parquet`"
    scan = f"{name} with (spark_readers = false)"
    frame = spark.read.option("spark_readers", False).table(name)
    assert rows(spark.sql(f"select count(b), max(a) from {scan} where A < 900")) == [(900, 899)]
    assert rows(frame.where("a in (1, 2) and b = 'x'").groupBy().count()) == [(2,)]
    with pytest.raises(PySparkException, match="row group 10"):
        spark.sql(f"select count(b) from {scan} where a > 850").collect()
