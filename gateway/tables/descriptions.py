"""Describes temporary tables in the form of Spark's ``DESCRIBE``."""

from pyspark.sql.connect.proto import base_pb2

from gateway.operations.responses import Response, build_sql_response
from gateway.sql.name_syntax import qualify_with_session
from gateway.sql.statements import DescribeTable
from gateway.stored_tables.described_columns import COLUMNS, describe
from gateway.stored_tables.table_plans import build_session_table
from gateway.tables.partition_changes import PartitionChanges
from gateway.tables.sql_statement import SqlStatement
from workspace.records import TemporaryTable

_MAX_COLUMNS = 100_000


async def describe_table(
    statement: DescribeTable, sql: SqlStatement, table: TemporaryTable, partitions: PartitionChanges
) -> Response:
    """Return the answer of ``DESCRIBE``.

    Raises:
        GatewayError: If the partition does not exist, or the backend fails.
    """
    execution = sql.context.execution
    values = {}
    if statement.partition:
        arguments = await sql.arguments((statement.name.end, len(sql.text)))
        values = dict(await partitions.find(execution, table, statement.partition, arguments))
    plan = base_pb2.Plan()
    plan.root.sql.query = f"DESCRIBE TABLE {qualify_with_session(table.name)}"
    columns = await execution.backend.read_text_rows(plan, COLUMNS, max_rows=_MAX_COLUMNS)
    schema = await execution.backend.analyze_schema(build_session_table(table.name))
    shown = describe(table, schema, columns, is_extended=statement.is_extended, partition=values)
    return build_sql_response(shown)
