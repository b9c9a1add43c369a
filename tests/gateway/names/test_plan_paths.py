"""All fields of the protocol that can contain a path are searched."""

from collections.abc import Iterator

import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from pyspark.sql.connect.proto import base_pb2, commands_pb2, ml_pb2, relations_pb2

from gateway.authorization.path_fence import UNKNOWN
from gateway.names import plan_paths
from gateway.names.plan_paths import find_plan_paths
from gateway.sql.path_texts import TextUse
from gateway.sql.sql_texts import SqlTexts

NOT_PATHS = {
    "google.protobuf.Any.type_url",
    "spark.connect.AsOfJoin.direction",
    "spark.connect.NearestByJoin.direction",
    "spark.connect.StreamingQueryManagerCommand.get_query",
    "spark.connect.Expression.UnresolvedAttribute.unparsed_identifier",
    "spark.connect.SourceCodeLocation.definition_path",
    "spark.connect.SourceCodeLocation.file_name",
    "spark.connect.StackTraceElement.file_name",
    "spark.connect.PipelineCommand.DefineSqlGraphElements.sql_file_path",
    "spark.connect.JvmOrigin.sql_text",
    "spark.connect.ResolvedIdentifier.table_name",
    "spark.connect.WithColumnsRenamed.rename_columns_map",
}
PATH_WORDS = ("path", "file", "location", "storage", "dir", "uri", "url", "table_name", "unparsed_identifier", "query")
SQL_WORDS = ("sql", "command")


def messages(root: Descriptor) -> Iterator[Descriptor]:
    seen, pending = {root.full_name}, [root]
    while pending:
        current = pending.pop()
        yield current
        for field in current.fields:
            if field.message_type is not None and field.message_type.full_name not in seen:
                seen.add(field.message_type.full_name)
                pending.append(field.message_type)


def is_text(field: FieldDescriptor) -> bool:
    return field.type == FieldDescriptor.TYPE_STRING


def is_text_map(field: FieldDescriptor) -> bool:
    kind = field.message_type
    return kind is not None and kind.GetOptions().map_entry and is_text(kind.fields_by_name["value"])


TABLES = (plan_paths.PATH_FIELDS, plan_paths.OPTION_FIELDS, plan_paths.NAME_FIELDS, plan_paths.SQL_FIELDS)
KNOWN = {f"{kind}.{name}" for table in TABLES for kind, names in table.items() for name in names}
ALL = {
    kind.full_name: kind for root in (base_pb2.Plan, base_pb2.AnalyzePlanRequest) for kind in messages(root.DESCRIPTOR)
}


def test_every_field_that_may_contain_a_path_is_known():
    found = {
        field.full_name
        for kind in ALL.values()
        if not kind.GetOptions().map_entry
        for field in kind.fields
        if is_text_map(field) or (is_text(field) and any(word in field.name for word in (*PATH_WORDS, *SQL_WORDS)))
    }
    unknown = {"spark.connect.SQL.query", *NOT_PATHS} | {name for name in found if name.endswith(".query_name")}
    assert found - KNOWN - unknown == set()


def test_every_known_field_exists():
    assert {
        name for name in KNOWN if name.rpartition(".")[2] not in ALL[name.rpartition(".")[0]].fields_by_name
    } == set()


def relation(**fields) -> relations_pb2.Relation:
    return relations_pb2.Relation(**fields)


READ = relation(read=relations_pb2.Read(data_source=relations_pb2.Read.DataSource(format="csv", paths=["/p"])))
SQL = relation(sql=relations_pb2.SQL(query="select * from csv.`/p`"))
OPTION = relation(
    read=relations_pb2.Read(data_source=relations_pb2.Read.DataSource(format="csv", options={"path": "/p"}))
)
PATHS = relation(
    read=relations_pb2.Read(data_source=relations_pb2.Read.DataSource(options={"paths": '["/a", "\\/p"]'}))
)
NAME = relation(read=relations_pb2.Read(named_table=relations_pb2.Read.NamedTable(unparsed_identifier="csv.`/p`")))
CLAUSE = relation(
    read=relations_pb2.Read(named_table=relations_pb2.Read.NamedTable(unparsed_identifier="csv.IDENTIFIER('`/p`')"))
)


def aliased() -> list[relations_pb2.Relation]:
    """Return statements whose argument has aliases, which Spark ignores."""
    found = []
    for text in ("create table t (a int) using csv location :p", "select * from identifier('csv.`' || :p || '`')"):
        statement = relations_pb2.SQL(query=text)
        statement.named_arguments["p"].alias.expr.alias.expr.literal.string = "/p"
        found.append(relation(sql=statement))
    return found


def command(**fields) -> base_pb2.Plan:
    return base_pb2.Plan(command=commands_pb2.Command(**fields))


def filtered(expression: str) -> relations_pb2.Relation:
    found = relation(filter=relations_pb2.Filter(input=SQL))
    found.filter.input.Clear()
    found.filter.condition.expression_string.expression = expression
    return found


PLANS = [
    *(base_pb2.Plan(root=each) for each in (READ, SQL, OPTION, PATHS, NAME, CLAUSE, *aliased())),
    base_pb2.Plan(root=relation(limit=relations_pb2.Limit(input=READ, limit=1))),
    base_pb2.Plan(root=relation(with_relations=relations_pb2.WithRelations(root=SQL, references=[]))),
    base_pb2.Plan(root=filtered("a = (select max(a) from csv.`/p`)")),
    command(write_operation=commands_pb2.WriteOperation(path="/p")),
    command(write_operation=commands_pb2.WriteOperation(input=READ, path="/x")),
    command(write_operation=commands_pb2.WriteOperation(options={"path": "/p"})),
    command(write_operation_v2=commands_pb2.WriteOperationV2(table_properties={"location": "/p"})),
    command(write_stream_operation_start=commands_pb2.WriteStreamOperationStart(path="/p")),
    command(write_stream_operation_start=commands_pb2.WriteStreamOperationStart(options={"checkpointLocation": "/p"})),
    command(sql_command=commands_pb2.SqlCommand(sql="add jar /p")),
    command(sql_command=commands_pb2.SqlCommand(input=SQL)),
    command(ml_command=ml_pb2.MlCommand(write=ml_pb2.MlCommand.Write(path="/p"))),
    command(ml_command=ml_pb2.MlCommand(read=ml_pb2.MlCommand.Read(path="/p"))),
]


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: str(plan)[:60].replace("\n", " "))
def test_paths_are_found_in_plans(plan):
    assert "/p" in {found.text for found in find_plan_paths(plan, SqlTexts(), with_expressions=True)}


def test_argument_that_spark_computes_is_an_unknown_path():
    statement = relations_pb2.SQL(query="create table t (a int) using csv location ?")
    function = statement.pos_arguments.add().unresolved_function
    function.function_name = "concat"
    found = find_plan_paths(base_pb2.Plan(root=relation(sql=statement)), SqlTexts(), with_expressions=False)
    assert UNKNOWN in {each.text for each in found if each.use is TextUse.PATH}


def test_scans_of_lodge_are_left_to_name_resolution():
    scan = relations_pb2.Read.DataSource(format="Lodge", options={"root": "/p", "path": "x"})
    plan = base_pb2.Plan(root=relation(read=relations_pb2.Read(data_source=scan)))
    assert list(find_plan_paths(plan, SqlTexts(), with_expressions=True)) == []
