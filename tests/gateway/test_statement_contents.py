"""What the audit log learns from an `ExecutePlan` request."""

from pyspark.sql.connect.proto import base_pb2, commands_pb2, relations_pb2

from gateway.auditing.audit import Contents
from gateway.auditing.statement_contents import describe_kind, read_contents

Relation = relations_pb2.Relation


def read(plan: base_pb2.Plan, *, with_text: bool = False) -> Contents:
    return read_contents(base_pb2.ExecutePlanRequest(plan=plan).SerializeToString(), with_text=with_text)


def sql_command(text: str) -> base_pb2.Plan:
    command = commands_pb2.SqlCommand(input=Relation(sql=relations_pb2.SQL(query=text)))
    return base_pb2.Plan(command=commands_pb2.Command(sql_command=command))


def test_sql_command() -> None:
    plan = sql_command("insert into t select * from csv.`/a`")
    assert describe_kind(plan) == "sql_command"
    assert read(plan) == Contents("INSERT", ("t",), ("/a",))
    assert read(plan, with_text=True).query_text == "insert into t select * from csv.`/a`"


def test_query_names_tables_and_files_at_any_depth() -> None:
    table = Relation(read=relations_pb2.Read(named_table=relations_pb2.Read.NamedTable(unparsed_identifier="a.b")))
    source = relations_pb2.Read.DataSource(format="csv", paths=["/x", "s3a://key:secret@bucket/y"])
    join = relations_pb2.Join(left=table, right=Relation(read=relations_pb2.Read(data_source=source)))
    plan = base_pb2.Plan(root=Relation(limit=relations_pb2.Limit(input=Relation(join=join), limit=3)))
    assert describe_kind(plan) == "query"
    contents = read(plan)
    assert contents.tables == ("a.b",)
    assert set(contents.files) == {"/x", "s3a://bucket/y"}
    assert contents.is_complete


def test_commands_of_data_frames() -> None:
    write = commands_pb2.WriteOperation(source="parquet", path="/out")
    view = commands_pb2.CreateDataFrameViewCommand(name="v")
    write_table = commands_pb2.WriteOperationV2(table_name="c.t")
    cases = {
        "write_operation": (commands_pb2.Command(write_operation=write), (), ("/out",)),
        "create_dataframe_view": (commands_pb2.Command(create_dataframe_view=view), ("v",), ()),
        "write_operation_v2": (commands_pb2.Command(write_operation_v2=write_table), ("c.t",), ()),
    }
    for kind, (command, tables, files) in cases.items():
        plan = base_pb2.Plan(command=command)
        contents = read(plan)
        assert (describe_kind(plan), contents.tables, contents.files) == (kind, tables, files)


def test_unread_parts_are_reported() -> None:
    compressed = base_pb2.Plan(compressed_operation=base_pb2.Plan.CompressedOperation(data=b"x"))
    assert not read(compressed).is_complete
    assert not read(sql_command("select 1 -- " + 10_000 * "x")).is_complete
    assert read_contents(b"\xff\xff", with_text=False) == Contents(is_complete=False)
    deep = Relation(sql=relations_pb2.SQL(query="select 1"))
    for _ in range(30):
        deep = Relation(deduplicate=relations_pb2.Deduplicate(input=deep))
    wide = Relation(unpivot=relations_pb2.Unpivot(input=deep))
    assert read(base_pb2.Plan(root=wide)).is_complete
