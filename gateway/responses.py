"""What a statement that Lodge answers gives back, in the form in which Spark gives it.

Source: Spark: SparkConnectPlanner (``sql_command_result`` of a command, Arrow batches of a relation).
"""

import io
from collections.abc import Mapping

import pyarrow as pa
from pyspark.sql.connect.proto import base_pb2, relations_pb2

Response = base_pb2.ExecutePlanResponse
Values = Mapping[str, bool | int | str]

NOTHING = Response()
"""The answer of a command without a result, such as a write."""


def row(values: Values) -> Response:
    """The answer of a SQL statement: one row, or an empty result without columns."""
    return sql_rows(pa.table({key: pa.array([value]) for key, value in values.items()}))


def sql_rows(table: pa.Table) -> Response:
    """The answer of a SQL statement."""
    relation = relations_pb2.Relation()
    relation.local_relation.data = arrow_stream(table)
    return Response(sql_command_result=Response.SqlCommandResult(relation=relation))


def batch(table: pa.Table) -> Response:
    """The answer of a relation, such as a call of the catalog."""
    return Response(arrow_batch=Response.ArrowBatch(row_count=table.num_rows, data=arrow_stream(table)))


def arrow_stream(table: pa.Table) -> bytes:
    """The rows as Arrow's stream, with one batch at least."""
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        for part in table.combine_chunks().to_batches() or [pa.RecordBatch.from_pylist([], schema=table.schema)]:
            writer.write_batch(part)
    return sink.getvalue()
