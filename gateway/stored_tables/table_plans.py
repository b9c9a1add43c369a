"""Plans that write the rows of a table, and the view that reads them.

Guarantees:

1. Directories have mode 0700 and files mode 0600, regardless of the umask of the backend. Spark sets the modes itself,
   from the options of the write.
2. The view is a projection, never a plain scan. Spark allows insertions into the files of a plain scan, and would give
   the new files open permissions.

Source: [temporary-tables §5.1.9, §5.2]; [hadoop-permissions] (``fs.permissions.umask-mode``, which a cached file system
ignores).
"""

import json
from collections.abc import Mapping, Sequence

from pyspark.sql.connect.proto import base_pb2, commands_pb2, expressions_pb2, relations_pb2
from pyspark.sql.types import StructType

from gateway.sql.name_syntax import qualify_with_session, quote_name
from workspace.storage_paths import StoragePath

ROWS_WRITTEN = "lodge_rows_written"
"""The observed metric that counts the rows of a write."""

_PRIVATE_FILES = {"fs.permissions.umask-mode": "077", "fs.file.impl.disable.cache": "true"}


def build_write(
    query: relations_pb2.Relation,
    directory: str,
    *,
    storage_format: str,
    partition_columns: Sequence[str],
    options: Mapping[str, str],
) -> base_pb2.Plan:
    """Return the plan that writes rows into a new directory, and counts them."""
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


def build_scan(
    directories: Sequence[str],
    *,
    storage_format: str,
    schema: StructType,
    options: Mapping[str, str],
    is_partitioned: bool,
) -> relations_pb2.Relation:
    """Return the relation of the rows in one or more directories.

    The columns have the order of the schema.

    Spark reads several directories in one scan, unless they are partitioned.
    """
    if is_partitioned and len(directories) > 1:
        middle = len(directories) // 2
        halves = [
            build_scan(half, storage_format=storage_format, schema=schema, options=options, is_partitioned=True)
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
    scan.read.data_source.schema = encode_schema(schema)
    scan.read.data_source.paths.extend(directories)
    scan.read.data_source.options.update(options)
    projection = relations_pb2.Relation()
    projection.project.input.CopyFrom(scan)
    for name in schema.names:
        projection.project.expressions.add().unresolved_attribute.unparsed_identifier = quote_name(name)
    return projection


def build_view(name: str, relation: relations_pb2.Relation) -> base_pb2.Plan:
    """Return the plan that creates or replaces a temporary view."""
    view = commands_pb2.CreateDataFrameViewCommand(input=relation, name=quote_name(name), is_global=False, replace=True)
    return base_pb2.Plan(command=commands_pb2.Command(create_dataframe_view=view))


def build_empty_relation(schema: str) -> relations_pb2.Relation:
    """Return a relation without rows.

    Args:
        schema: The schema as DDL or JSON.
    """
    relation = relations_pb2.Relation()
    relation.local_relation.schema = schema
    return relation


def build_named_table(name: str) -> relations_pb2.Relation:
    """Return the relation of a table by its name, as Spark parses the name."""
    relation = relations_pb2.Relation()
    relation.read.named_table.unparsed_identifier = name
    return relation


def build_session_table(name: str) -> relations_pb2.Relation:
    """Return the relation of a temporary view, never of a table of the same name."""
    return build_named_table(qualify_with_session(name))


def rename_columns(query: relations_pb2.Relation, names: Sequence[str]) -> relations_pb2.Relation:
    """Return a query with other names of its columns."""
    return relations_pb2.Relation(to_df=relations_pb2.ToDF(input=query, column_names=names))


def to_spark_path(path: StoragePath | str) -> str:
    """Return a path as Spark reads it: with ``s3a://`` for object stores."""
    name = str(path)
    return f"s3a://{name.removeprefix('s3://')}" if name.startswith("s3://") else name


def encode_schema(schema: StructType) -> str:
    """Return a schema as JSON."""
    return json.dumps(schema.jsonValue())
