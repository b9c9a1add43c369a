"""Finds the texts in a plan that Spark may use as paths.

Guarantee: all fields of the Spark Connect protocol are known that contain a path, options, a name or SQL text.
``tests/gateway/names/test_plan_paths.py`` compares the tables of this module with the protocol.

Source: [spark-connect-proto].
"""

from collections.abc import Iterator, Mapping, Sequence

from google.protobuf.message import Message
from pyspark.sql.connect.proto import expressions_pb2, relations_pb2

from engine.scan_source import FORMAT
from gateway.names.plan_messages import fields_reaching, find_children
from gateway.plans.sql_relations import read_parameters
from gateway.sql.path_texts import PathText, TextUse, find_name_paths, find_path_texts, may_contain_path, read_option
from gateway.sql.sql_texts import SqlTexts

PATH_FIELDS: Mapping[str, Sequence[str]] = {
    "spark.connect.Read.DataSource": ("paths",),
    "spark.connect.CreateExternalTable": ("path",),
    "spark.connect.CreateTable": ("path",),
    "spark.connect.RefreshByPath": ("path",),
    "spark.connect.WriteOperation": ("path",),
    "spark.connect.WriteStreamOperationStart": ("path",),
    "spark.connect.MlCommand.Write": ("path",),
    "spark.connect.MlCommand.Read": ("path",),
    "spark.connect.PipelineCommand.StartRun": ("storage",),
    "spark.connect.PipelineCommand.ExecuteOutputFlows": ("storage",),
}
OPTION_FIELDS: Mapping[str, Sequence[str]] = {
    "spark.connect.Read.NamedTable": ("options",),
    "spark.connect.Read.DataSource": ("options",),
    "spark.connect.Parse": ("options",),
    "spark.connect.RelationChanges": ("options",),
    "spark.connect.CreateExternalTable": ("options",),
    "spark.connect.CreateTable": ("options",),
    "spark.connect.CreateDatabase": ("properties",),
    "spark.connect.WriteOperation": ("options",),
    "spark.connect.WriteOperationV2": ("options", "table_properties"),
    "spark.connect.WriteStreamOperationStart": ("options",),
    "spark.connect.MlCommand.Write": ("options",),
    "spark.connect.ExecuteExternalCommand": ("options",),
    "spark.connect.PipelineCommand.CreateDataflowGraph": ("sql_conf",),
    "spark.connect.PipelineCommand.DefineOutput.TableDetails": ("table_properties",),
    "spark.connect.PipelineCommand.DefineOutput.SinkDetails": ("options",),
    "spark.connect.PipelineCommand.DefineFlow": ("sql_conf",),
}
NAME_FIELDS: Mapping[str, Sequence[str]] = {
    "spark.connect.Read.NamedTable": ("unparsed_identifier",),
    "spark.connect.RelationChanges": ("unparsed_identifier",),
    "spark.connect.ListColumns": ("table_name",),
    "spark.connect.GetTable": ("table_name",),
    "spark.connect.TableExists": ("table_name",),
    "spark.connect.CreateExternalTable": ("table_name",),
    "spark.connect.CreateTable": ("table_name",),
    "spark.connect.RecoverPartitions": ("table_name",),
    "spark.connect.IsCached": ("table_name",),
    "spark.connect.CacheTable": ("table_name",),
    "spark.connect.UncacheTable": ("table_name",),
    "spark.connect.RefreshTable": ("table_name",),
    "spark.connect.DropTable": ("table_name",),
    "spark.connect.ListPartitions": ("table_name",),
    "spark.connect.GetTableProperties": ("table_name",),
    "spark.connect.GetCreateTableString": ("table_name",),
    "spark.connect.TruncateTable": ("table_name",),
    "spark.connect.AnalyzeTable": ("table_name",),
    "spark.connect.WriteOperation.SaveTable": ("table_name",),
    "spark.connect.WriteOperationV2": ("table_name",),
    "spark.connect.WriteStreamOperationStart": ("table_name",),
    "spark.connect.MergeIntoTableCommand": ("target_table_name",),
    "spark.connect.PipelineCommand.DefineOutput": ("output_name",),
    "spark.connect.PipelineCommand.DefineFlow": ("target_dataset_name",),
    "spark.connect.PipelineCommand.DefineFlow.AutoCdcFlowDetails": ("source",),
}
SQL_FIELDS: Mapping[str, Sequence[str]] = {
    "spark.connect.SqlCommand": ("sql",),
    "spark.connect.Expression.ExpressionString": ("expression",),
    "spark.connect.PipelineCommand.DefineSqlGraphElements": ("sql_text",),
    "spark.connect.ExecuteExternalCommand": ("command",),
}
_RELATION_SQL = relations_pb2.SQL.DESCRIPTOR.full_name
_EXPRESSION = expressions_pb2.Expression.ExpressionString.DESCRIPTOR.full_name
_KINDS = frozenset({*PATH_FIELDS, *OPTION_FIELDS, *NAME_FIELDS, *SQL_FIELDS, _RELATION_SQL}) - {_EXPRESSION}
_KINDS_WITH_EXPRESSIONS = _KINDS | {_EXPRESSION}


def find_plan_paths(root: Message, texts: SqlTexts, *, with_expressions: bool) -> Iterator[PathText]:
    """Yield the texts of a message that may be paths.

    Compressed plans inside the message are not searched.

    Args:
        root: A request, a plan or a part of a plan.
        texts: The SQL texts of the request.
        with_expressions: Whether to search SQL texts in expressions too. They can contain a path only if they contain
            a subquery.
    """
    wanted = _KINDS_WITH_EXPRESSIONS if with_expressions else _KINDS
    pending = [root]
    while pending:
        message = pending.pop()
        kind = message.DESCRIPTOR.full_name
        if kind in wanted:
            yield from _read(message, kind, texts)
        pending.extend(find_children(message, fields_reaching(message.DESCRIPTOR, wanted)))


def _read(message: Message, kind: str, texts: SqlTexts) -> Iterator[PathText]:
    if isinstance(message, relations_pb2.Read.DataSource) and message.format.lower() == FORMAT:
        return  # Lodge replaces the whole relation
    is_table = isinstance(message, relations_pb2.Read.DataSource) and len(message.paths) == 1 and bool(message.schema)
    for name in PATH_FIELDS.get(kind, ()):
        value = getattr(message, name)
        for text in (value,) if isinstance(value, str) else value:
            yield PathText(text, TextUse.TABLE if is_table else TextUse.PATH)
    for name in OPTION_FIELDS.get(kind, ()):
        for key, value in getattr(message, name).items():
            yield from read_option(key, value)
    for name in NAME_FIELDS.get(kind, ()):
        yield from find_name_paths(getattr(message, name))
    for name in SQL_FIELDS.get(kind, ()):
        yield from find_path_texts(getattr(message, name))
    if isinstance(message, relations_pb2.SQL) and may_contain_path(message.query):
        yield from find_path_texts(texts.of(message.query), read_parameters(message))
