"""The error messages of [temporary-tables §5.4], word for word."""

ABSENT = (
    "SCHEMA_NOT_FOUND",
    "42704",
    "Schema [dfs.wk1] is not valid with respect to either root schema or current default schema. "
    "Current default schema: ",
)
IMMUTABLE = (
    "LODGE_IMMUTABLE_SCHEMA",
    "42501",
    "Unable to create or drop tables/views. Schema [dfs] is immutable.",
)
NOT_FILE_BASED = (
    "LODGE_NOT_FILE_BASED",
    "42809",
    "Temporary workspace [default] must be file-based, instance of WorkspaceSchemaFactory.WorkspaceSchema.",
)


def test_create_1_name_is_taken(client):
    client.run("create temporary table my_table as select 1 a")
    client.refuses(
        "create temporary table my_table as select 2 a",
        "TABLE_OR_VIEW_ALREADY_EXISTS",
        "42P07",
        "A table or view with given name [my_table] already exists in schema [dfs.tmp].",
    )


def test_create_2_other_workspace(client):
    client.refuses(
        "create temporary table dfs.x as select 1 a",
        "LODGE_NOT_TEMPORARY_WORKSPACE",
        "42602",
        "Temporary tables are not allowed to be created outside of default temporary workspace [dfs.tmp].",
    )


def test_create_3_absent_workspace(client):
    client.refuses("create temporary table dfs.wk1.x as select 1 a", *ABSENT)
    client.refuses("create table dfs.wk1.x as select 1 a", *ABSENT)
    client.refuses("create temporary table nowhere.x as select 1 a", "SCHEMA_NOT_FOUND", "42704", "Schema [nowhere]")


def test_create_4_immutable_workspace(client):
    client.refuses("create table dfs.x as select 1 a", *IMMUTABLE)
    assert not (client.gateway.files / "x").exists()


def test_create_5_schema_is_not_file_based(client):
    client.refuses("create temporary table default.x as select 1 a", *NOT_FILE_BASED)


def test_create_6_wrong_number_of_columns(client):
    for rest, kind in (
        ("(a, b) as select 1 a", "NOT_ENOUGH"),
        ("(a) as select 1 a, 2 b", "TOO_MANY"),
        ("(a, b) as select * from range(1)", "NOT_ENOUGH"),
    ):
        client.refuses(
            f"create temporary table x {rest}",
            f"CREATE_VIEW_COLUMN_ARITY_MISMATCH.{kind}_DATA_COLUMNS",
            "21S01",
            "Table's field list and the table's query field list have different counts.",
        )


def test_create_7_absent_partition_column(client):
    client.refuses(
        "create temporary table x partition by (c1) as select 1 a",
        "COLUMN_NOT_FOUND",
        "42703",
        "Partition column c1 is not in the SELECT list of CTAS!",
    )


def test_create_8_partitions_of_permanent_table_in_other_format_than_parquet(writer):
    writer.refuses(
        "create table dfs.x using json partition by (a) as select 1 a, 2 b",
        "LODGE_PARTITION_FORMAT",
        "0A000",
        "Json format does not support auto-partitioning.",
    )


def test_drop_1_absent_table(client):
    for name in ("my_table", "dfs.tmp.my_table", "`my_table`"):
        client.refuses(f"drop table {name}", "TABLE_OR_VIEW_NOT_FOUND", "42P01", "Table [my_table] is not found.")


def test_drop_2_absent_workspace(client):
    client.refuses("drop table dfs.wk1.x", *ABSENT)
    client.refuses("drop table if exists dfs.wk1.x", *ABSENT)


def test_drop_3_immutable_workspace(client):
    client.refuses("drop table dfs.x", *IMMUTABLE)
    client.refuses("drop table dfs.`amount.csv`", *IMMUTABLE)
    assert (client.gateway.files / "amount.csv").exists()


def test_drop_4_schema_of_spark_is_left_to_spark(client):
    client.run("create table sparks using parquet as select 7 a")
    assert client.rows("drop table default.sparks") == []
    client.refuses("drop table default.sparks", "TABLE_OR_VIEW_NOT_FOUND", "42P01")


def test_failing_query_leaves_nothing(client):
    for query, condition, state in (
        ("select nope from range(1)", "UNRESOLVED_COLUMN.WITH_SUGGESTION", "42703"),
        ("select 1 a union", "PARSE_SYNTAX_ERROR", "42601"),
        ("select raise_error('broken') a", "USER_RAISED_EXCEPTION", "P0001"),
        ("select 1 / (id - 4999) a from range(5000)", "DIVIDE_BY_ZERO", "22012"),
        ("select * from nowhere", "TABLE_OR_VIEW_NOT_FOUND", "42P01"),
        ("select * from dfs.`nowhere.csv`", "TABLE_OR_VIEW_NOT_FOUND", "42P01"),
    ):
        client.refuses(f"create temporary table x as {query}", condition, state)
    client.run("create temporary table x as select 1 a")
