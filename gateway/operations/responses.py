"""Builds the responses of Lodge statements in the format of Spark.

Source: [spark-connect-server SparkConnectPlanner]: the response of a SQL command contains a ``sql_command_result``, and
the response of a relation contains Arrow batches.
"""

import io
from collections.abc import Mapping, Sequence

import pyarrow as pa
from pyspark.sql.connect.proto import base_pb2, relations_pb2
from pyspark.sql.connect.types import pyspark_types_to_proto_types
from pyspark.sql.pandas.types import from_arrow_schema

Response = base_pb2.ExecutePlanResponse
Values = Mapping[str, bool | int | str]

NOTHING = Response()
"""The response of a command without a result, for example a write."""


def build_row_response(values: Values) -> Response:
    """Return the response of a SQL command with a single row.

    If there are no values, the response has neither rows nor columns.
    """
    return build_sql_response(pa.table({key: pa.array([value]) for key, value in values.items()}))


def build_sql_response(table: pa.Table) -> Response:
    """Return the response of a SQL command with the rows of a table."""
    relation = relations_pb2.Relation()
    relation.local_relation.data = encode_arrow_stream(table)
    return Response(sql_command_result=Response.SqlCommandResult(relation=relation))


def build_batch_response(table: pa.Table) -> Response:
    """Return the response of a relation with the rows of a table."""
    return Response(arrow_batch=Response.ArrowBatch(row_count=table.num_rows, data=encode_arrow_stream(table)))


def convert_to_rows(response: Response) -> Sequence[Response]:
    """Return the responses of a relation in place of the response of a SQL command: the schema, and then the rows.

    Other responses are returned unchanged.

    Args:
        response: A response that Lodge has built. Rows of a backend would have to be checked before they are decoded.
    """
    if not response.HasField("sql_command_result"):
        return (response,)
    with pa.ipc.open_stream(response.sql_command_result.relation.local_relation.data) as stream:
        table = stream.read_all()
    schema = pyspark_types_to_proto_types(from_arrow_schema(table.schema))
    return Response(schema=schema), build_batch_response(table)


def encode_arrow_stream(table: pa.Table) -> bytes:
    """Return a table as an Arrow IPC stream with at least one batch."""
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        for part in table.combine_chunks().to_batches() or [pa.RecordBatch.from_pylist([], schema=table.schema)]:
            writer.write_batch(part)
    return sink.getvalue()
