"""Permanent tables in writable workspaces [temporary-tables §5.1.1, §5.1.8, §5.2]."""

import stat

import pytest

FORMATS = ("parquet", "orc", "json", "csv")

LONG_OPTIONS = ", ".join(f"'parquet.{number}' '{'x' * 4000}'" for number in range(5))


def there(writer):
    return sorted(path.name for path in writer.gateway.files.iterdir())


@pytest.fixture(autouse=True)
def nothing_is_left(writer):
    before = there(writer)
    yield
    writer.drop_all()
    assert there(writer) == before
    assert writer.files() == []


@pytest.mark.slow
def test_permanent_table_is_read_by_all_sessions_and_dropped(writer, writable, connect):
    other = connect(writable)
    for storage in FORMATS:
        created = f"create table dfs.p (x, `Y y`) using {storage} as select 1.5, 'a, \"b\"' union all select 2, ''"
        assert writer.rows(created) == [("0_0", 2)]
        read = other.sql("select * from dfs.p order by x")
        assert [tuple(map(str, row)) for row in read.collect()] == [("1.5", 'a, "b"'), ("2.0", "")]
        assert read.dtypes == [("x", "decimal(11,1)"), ("Y y", "string")]
        assert other.table("dfs.p").count() == 2
        assert writer.rows("drop table dfs.p") == [(True, "Table [p] dropped")]
        writer.refuses("select * from dfs.p", "TABLE_OR_VIEW_NOT_FOUND", "42P01")


def test_directories_have_mode_0775_and_files_0644(writer):
    writer.run("create table dfs.p partition by (b) as select id a, id % 2 b from range(4)")
    path = writer.gateway.files / "p"
    modes = {stat.filemode(each.stat().st_mode) for each in [path, *path.rglob("*")]}
    assert modes == {"drwxrwxr-x", "-rw-r--r--"}
    assert writer.sorted("select * from dfs.p") == [(0, 0), (1, 1), (2, 0), (3, 1)]
    writer.run("drop table dfs.p")


def test_permanent_table_outlives_session(writer, writable, connect):
    spark = connect(writable)
    spark.sql("create table dfs.p as select 1 a").collect()
    spark.stop()
    assert writer.rows("select * from dfs.p") == [(1,)]
    writer.run("drop table if exists dfs.p")
    assert writer.rows("drop table if exists dfs.p") == [(False, "Table [p] was not found.")]


def test_create_refuses_name_in_use(writer):
    writer.run("create table dfs.p as select 1 a")
    (writer.gateway.files / "directory").mkdir()
    (writer.gateway.files / "file.csv").write_text("1\n")
    for name in ("p", "directory", "`file.csv`"):
        text = f"A table or view with given name [{name.strip('`')}] already exists in schema [dfs]."
        refused = ("TABLE_OR_VIEW_ALREADY_EXISTS", "42P07", text)
        writer.refuses(f"create table dfs.{name} as select raise_error('ran') a", *refused)
    for name in ("p", "directory", "`file.csv`"):
        text = f"A table or view with given name [{name.strip('`')}] already exists in schema [dfs]."
        assert writer.rows(f"create table if not exists dfs.{name} as select raise_error('ran') a") == [(False, text)]
    (writer.gateway.files / "directory").rmdir()
    (writer.gateway.files / "file.csv").unlink()
    writer.run("drop table dfs.p")


def test_failed_creation_leaves_nothing(writer):
    for rest, condition, state in (
        ("as select raise_error('no') a", "USER_RAISED_EXCEPTION", "P0001"),
        ("as select nope", "UNRESOLVED_COLUMN.WITHOUT_SUGGESTION", "42703"),
        ("(x, y) as select 1", "CREATE_VIEW_COLUMN_ARITY_MISMATCH.NOT_ENOUGH_DATA_COLUMNS", "21S01"),
        ("partition by (c1) as select 1 a", "COLUMN_NOT_FOUND", "42703"),
        ("using json partition by (a) as select 1 a, 2 b", "LODGE_PARTITION_FORMAT", "0A000"),
        ("using csv as select X'00' a", "UNSUPPORTED_DATA_TYPE_FOR_DATASOURCE", "0A000"),
        ("using delta as select 1 a", "LODGE_STORAGE_FORMAT", "0A000"),
        ("options (path '/tmp/x') as select 1 a", "LODGE_TABLE_OPTIONS", "42000"),
        (f"options (compression '{'x' * 4097}') as select 1 a", "LODGE_TABLE_OPTIONS", "42000"),
        (f"options ('parquet.{'x' * 4097}' '1') as select 1 a", "LODGE_TABLE_OPTIONS", "42000"),
        (f"options ({', '.join(f'parquet.x{n} 1' for n in range(101))}) as select 1 a", "LODGE_TABLE_OPTIONS", "42000"),
        (f"options ({LONG_OPTIONS}) as select 1 a", "LODGE_TABLE_OPTIONS", "42000"),
        ("(a int)", "LODGE_WORKSPACE_TABLE", "0A000"),
        ("like dfs.q", "LODGE_WORKSPACE_TABLE", "0A000"),
    ):
        writer.refuses(f"create table dfs.p {rest}", condition, state)
        assert not (writer.gateway.files / "p").exists()
    writer.refuses("create or replace table dfs.p as select 1 a", "LODGE_WORKSPACE_TABLE", "0A000")


def test_create_refuses_paths_and_hidden_names(writer):
    for name in ("..", ".hidden", "_hidden", "a/b", "b45c25f6-ae64-4be0-bdd2-a6e50d1d191d", "n" * 256):
        writer.refuses(f"create table dfs.`{name}` as select 1 a", "LODGE_TABLE_NAME", "42602")


def test_drop_removes_only_tables_of_create_table(writer):
    files = writer.gateway.files
    (files / "directory").mkdir()
    (files / "directory" / "a.csv").write_text("1\n")
    (files / "link").symlink_to(files / "directory")
    for name in ("directory", "link", "`directory/a.csv`"):
        with_condition = "LODGE_NOT_A_TABLE" if "/" not in name else "TABLE_OR_VIEW_NOT_FOUND"
        writer.refuses(f"drop table dfs.{name}", with_condition, "42809" if "/" not in name else "42P01")
    assert (files / "directory" / "a.csv").exists()
    (files / "link").unlink()
    (files / "directory" / "a.csv").unlink()
    (files / "directory").rmdir()


def test_permanent_table_is_read_only(writer):
    writer.run("create table dfs.p as select id a from range(4)")
    writer.refuses("insert into dfs.p values (1)", "LODGE_WORKSPACE_TABLE", "0A000")
    writer.refuses("truncate table dfs.p", "LODGE_WORKSPACE_TABLE", "0A000")
    writer.run("create temporary table t as select * from dfs.p where a > 1")
    writer.run("create table dfs.q as select t.a from t join dfs.p p on t.a = p.a")
    assert writer.sorted("select * from dfs.q") == [(2,), (3,)]
    writer.run("drop table dfs.p")
    writer.run("drop table dfs.q")
