"""Plans for the backend: a write of a table's rows, and the view that reads them.

Guarantees:

1. Directories have mode 0700 and files 0600, whatever the umask of the backend: Spark sets modes itself, from the
   options of the write.
2. The view is a projection, never the bare files: Spark would let anyone insert into those, with open permissions.

Source: seed 001, 5.1.9 and 5.2; Hadoop: ``fs.permissions.umask-mode``, which a cached file system does not look at.
"""

import json
from collections.abc import Mapping, Sequence

from pyspark.sql.connect.proto import base_pb2, commands_pb2, expressions_pb2, relations_pb2
from pyspark.sql.types import StructType

from gateway.sql.name_syntax import qualify_with_session, quote_name
from workspace.storage_paths import StoragePath

ROWS_WRITTEN = "lodge_rows_written"
"""The observed metric of a write."""

_PRIVATE_FILES = {"fs.permissions.umask-mode": "077", "fs.file.impl.disable.cache": "true"}


def write_plan(
    query: relations_pb2.Relation,
    directory: str,
    *,
    storage_format: str,
    partition_columns: Sequence[str],
    options: Mapping[str, str],
) -> base_pb2.Plan:
    """Writes the rows of a query into a directory that does not exist yet, and counts them."""
    count = expressions_pb2.Expression()
    count.alias.name.append(ROWS_WRITTEN)
    count.alias.expr.unresolved_function.function_name = "count"
    count.alias.expr.unresolved_function.arguments.add().literal.integer = 1
    counted = relations_pb2.Relation()
    counted.collect_metrics.input.CopyFrom(query)
    counted.collect_metrics.name = ROWS_WRITTEN
    counted.collect_metrics.metrics.append(count)
    write = commands_pb2.WriteOperation(
        input=counted,
        source=storage_format,
        path=directory,
        mode=commands_pb2.WriteOperation.SAVE_MODE_ERROR_IF_EXISTS,
        partitioning_columns=partition_columns,
        options={**options, **_PRIVATE_FILES},
    )
    return base_pb2.Plan(command=commands_pb2.Command(write_operation=write))


def read_relation(
    directories: Sequence[str],
    *,
    storage_format: str,
    schema: StructType,
    options: Mapping[str, str],
    is_partitioned: bool,
) -> relations_pb2.Relation:
    """The rows of files in one directory or more, with the columns in the schema's order.

    Spark reads several directories at once, but not if they are partitioned.
    """
    if is_partitioned and len(directories) > 1:
        middle = len(directories) // 2
        halves = [
            read_relation(half, storage_format=storage_format, schema=schema, options=options, is_partitioned=True)
            for half in (directories[:middle], directories[middle:])
        ]
        union = relations_pb2.Relation()
        union.set_op.left_input.CopyFrom(halves[0])
        union.set_op.right_input.CopyFrom(halves[1])
        union.set_op.set_op_type = relations_pb2.SetOperation.SET_OP_TYPE_UNION
        union.set_op.is_all = True
        return union
    scan = relations_pb2.Relation()
    scan.read.data_source.format = storage_format
    scan.read.data_source.schema = schema_json(schema)
    scan.read.data_source.paths.extend(directories)
    scan.read.data_source.options.update(options)
    projection = relations_pb2.Relation()
    projection.project.input.CopyFrom(scan)
    for name in schema.names:
        projection.project.expressions.add().unresolved_attribute.unparsed_identifier = quote_name(name)
    return projection


def view_plan(name: str, relation: relations_pb2.Relation, *, replace: bool) -> base_pb2.Plan:
    view = commands_pb2.CreateDataFrameViewCommand(
        input=relation, name=quote_name(name), is_global=False, replace=replace
    )
    return base_pb2.Plan(command=commands_pb2.Command(create_dataframe_view=view))


def empty_relation(schema: str) -> relations_pb2.Relation:
    """No rows, of a schema as DDL or JSON."""
    relation = relations_pb2.Relation()
    relation.local_relation.schema = schema
    return relation


def named_table(name: str) -> relations_pb2.Relation:
    """A table by a name of one part or more, as Spark parses it."""
    relation = relations_pb2.Relation()
    relation.read.named_table.unparsed_identifier = name
    return relation


def session_table(name: str) -> relations_pb2.Relation:
    """A temporary view of the session, whatever else has its name."""
    return named_table(qualify_with_session(name))


def with_columns_named(query: relations_pb2.Relation, names: Sequence[str]) -> relations_pb2.Relation:
    return relations_pb2.Relation(to_df=relations_pb2.ToDF(input=query, column_names=names))


def spark_path(place: StoragePath) -> str:
    """How Spark is told of a place: it knows object stores by the scheme of Hadoop's file system for them."""
    name = str(place)
    return f"s3a://{name.removeprefix('s3://')}" if name.startswith("s3://") else name


def schema_json(schema: StructType) -> str:
    """A schema as Spark reads it back."""
    return json.dumps(schema.jsonValue())
