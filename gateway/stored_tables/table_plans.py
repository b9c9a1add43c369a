"""Plans that write the rows of a table, and relations that read them.

Guarantees:

1. Directories have mode 0700 and files have mode 0600, regardless of the umask of the backend. Spark sets these modes
   itself because of the options of the write.
2. The view of a table is a projection and not a plain scan. With a plain scan, Spark would allow clients to insert into
   the files of the table, and would create the new files with open permissions.

Source: [temporary-tables §5.1.9, §5.2]; [hadoop-permissions] (``fs.permissions.umask-mode``, which a cached file system
ignores).
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql.connect.proto import base_pb2, commands_pb2, expressions_pb2, relations_pb2
from pyspark.sql.connect.types import pyspark_types_to_proto_types
from pyspark.sql.types import StructField, StructType

from gateway.sql.name_syntax import qualify_with_session, quote_name
from gateway.stored_tables.column_metadata import char_length, with_varchar_only
from workspace.name_comparison import comparable_name
from workspace.storage_paths import StoragePath

ROWS_WRITTEN = "lodge_rows_written"
"""The beginning of the names of the observed metrics that count the rows of writes."""

FILE_METADATA = "_metadata"
"""The column of Spark that describes the file of a row."""

PRIVATE_FILES = {"fs.permissions.umask-mode": "077", "fs.file.impl.disable.cache": "true"}
"""The options of a write with which Spark creates directories with mode 0700 and files with mode 0600."""


def build_write(
    query: relations_pb2.Relation,
    directory: str,
    *,
    storage_format: str,
    partition_columns: Sequence[str],
    options: Mapping[str, str],
) -> base_pb2.Plan:
    """Return the plan that writes rows to a new directory and counts them."""
    plan = base_pb2.Plan()
    write = plan.command.write_operation
    add_row_count(write.input, query, directory)
    write.source = storage_format
    write.path = directory
    write.mode = commands_pb2.WriteOperation.SAVE_MODE_ERROR_IF_EXISTS
    write.partitioning_columns.extend(partition_columns)
    write.options.update({**options, **PRIVATE_FILES})
    return plan


def row_count_name(directory: str) -> str:
    """Return the name of the observed metric of a write. Spark confuses metrics of a session that have the same name.

    Args:
        directory: The name of the directory that is written, or its path.
    """
    return f"{ROWS_WRITTEN}_{directory.rpartition('/')[2]}"


def add_row_count(counted: relations_pb2.Relation, query: relations_pb2.Relation, directory: str) -> None:
    """Fill an empty relation with a query whose rows Spark counts, see :func:`row_count_name`."""
    counted.collect_metrics.input.CopyFrom(query)
    counted.collect_metrics.name = row_count_name(directory)
    counted.collect_metrics.metrics.append(_count())


def build_count(relation: relations_pb2.Relation) -> base_pb2.Plan:
    """Return the plan that counts the rows of a relation."""
    plan = base_pb2.Plan()
    aggregate = plan.root.aggregate
    aggregate.input.CopyFrom(relation)
    aggregate.group_type = relations_pb2.Aggregate.GROUP_TYPE_GROUPBY
    aggregate.aggregate_expressions.append(_count())
    return plan


def _count() -> expressions_pb2.Expression:
    count = expressions_pb2.Expression()
    count.alias.name.append(ROWS_WRITTEN)
    count.alias.expr.unresolved_function.function_name = "count"
    count.alias.expr.unresolved_function.arguments.add().literal.integer = 1
    return count


def build_scan(
    directories: Sequence[str],
    *,
    storage_format: str,
    schema: StructType,
    options: Mapping[str, str],
    partition_columns: Sequence[str] = (),
    has_file_metadata: bool = False,
) -> relations_pb2.Relation:
    """Return a relation that reads the rows in directories, in a single scan.

    The relation has the columns of the schema, in the same order. Several directories must not be partitioned.

    Args:
        directories: The paths of the directories.
        storage_format: The name of the data source.
        schema: The columns.
        options: The options of the data source.
        partition_columns: The columns whose values are in the names of directories. Spark does not keep the metadata of
            such columns, so the relation adds them.
        has_file_metadata: Whether to add the column ``_metadata`` of Spark, which has the name of a file in place of
            its path.

    The relation pads ``CHAR`` columns itself, because a setting of the session decides whether Spark does.
    """
    scan = relations_pb2.Relation()
    scan.read.data_source.format = storage_format
    scan.read.data_source.schema = json.dumps({"type": "struct", "fields": list(map(_readable_column, schema.fields))})
    scan.read.data_source.paths.extend(directories)
    scan.read.data_source.options.update(options)
    projection = relations_pb2.Relation()
    projection.project.input.CopyFrom(scan)
    partitions = set(map(comparable_name, partition_columns))
    for field in schema.fields:
        column = projection.project.expressions.add()
        length = char_length(field)
        if field.metadata and (length is not None or comparable_name(field.name) in partitions):
            column.alias.name.append(field.name)
            column.alias.metadata = json.dumps(field.metadata)
            column = column.alias.expr
        column.unresolved_attribute.unparsed_identifier = quote_name(field.name)
        if length is not None:
            column.CopyFrom(_padded(column, length))
    if has_file_metadata:
        projection.project.expressions.append(_file_metadata())
    return projection


def _file_metadata() -> expressions_pb2.Expression:
    """Return the column ``_metadata`` without a path of the server."""
    column = expressions_pb2.Expression()
    column.alias.name.append(FILE_METADATA)
    changed = column.alias.expr.update_fields
    changed.struct_expression.unresolved_attribute.unparsed_identifier = FILE_METADATA
    changed.field_name = "file_path"
    changed.value_expression.unresolved_attribute.unparsed_identifier = f"{FILE_METADATA}.file_name"
    return column


def _padded(column: expressions_pb2.Expression, length: int) -> expressions_pb2.Expression:
    """Return the texts of a column, padded to a length. Longer texts remain as they are."""
    wanted = expressions_pb2.Expression()
    wanted.literal.integer = length
    return call_function("rpad", column, call_function("greatest", wanted, call_function("char_length", column)))


def call_function(name: str, *arguments: expressions_pb2.Expression) -> expressions_pb2.Expression:
    """Return the call of a function of Spark."""
    expression = expressions_pb2.Expression()
    expression.unresolved_function.function_name = name
    expression.unresolved_function.arguments.extend(arguments)
    return expression


def _readable_column(field: StructField) -> Mapping[str, Any]:
    """Return a column in JSON format that Spark does not pad."""
    column: dict[str, Any] = field.jsonValue()
    if char_length(field) is not None:
        column["metadata"] = with_varchar_only(column["metadata"])
    return column


def build_union(relations: Sequence[relations_pb2.Relation]) -> relations_pb2.Relation:
    """Return a relation with all rows of several relations, as a tree of little depth."""
    if len(relations) == 1:
        return relations[0]
    middle = len(relations) // 2
    union = relations_pb2.Relation()
    union.set_op.left_input.CopyFrom(build_union(relations[:middle]))
    union.set_op.right_input.CopyFrom(build_union(relations[middle:]))
    union.set_op.set_op_type = relations_pb2.SetOperation.SET_OP_TYPE_UNION
    union.set_op.is_all = True
    return union


def build_view(name: str, relation: relations_pb2.Relation) -> base_pb2.Plan:
    """Return the plan that creates or replaces a temporary view."""
    plan = base_pb2.Plan()
    view = plan.command.create_dataframe_view
    view.input.CopyFrom(relation)
    view.name, view.is_global, view.replace = quote_name(name), False, True
    return plan


def build_unreadable_relation(schema: StructType, reason: str) -> relations_pb2.Relation:
    """Return a relation with the given columns whose queries fail.

    The condition of the error is ``USER_RAISED_EXCEPTION``.

    Args:
        schema: The columns.
        reason: The text of the error.
    """
    relation = relations_pb2.Relation()
    failing = relation.project.input.filter
    failing.input.range.end, failing.input.range.step = 1, 1
    failing.condition.cast.type.boolean.SetInParent()
    raised = failing.condition.cast.expr.unresolved_function
    raised.function_name = "raise_error"
    raised.arguments.add().literal.string = reason
    for field in schema.fields:
        column = relation.project.expressions.add().alias
        column.name.append(field.name)
        column.expr.cast.expr.literal.null.null.SetInParent()
        column.expr.cast.type.CopyFrom(pyspark_types_to_proto_types(field.dataType))
    return relation


def build_empty_relation(schema: str) -> relations_pb2.Relation:
    """Return a relation without rows.

    Args:
        schema: The schema in DDL or JSON format.
    """
    relation = relations_pb2.Relation()
    relation.local_relation.schema = schema
    return relation


def build_named_table(name: str) -> relations_pb2.Relation:
    """Return a relation that reads a table. Spark parses the name of the table."""
    relation = relations_pb2.Relation()
    relation.read.named_table.unparsed_identifier = name
    return relation


def build_session_table(name: str) -> relations_pb2.Relation:
    """Return a relation that reads a temporary view.

    The relation never reads a permanent table that has the same name.
    """
    return build_named_table(qualify_with_session(name))


def rename_columns(query: relations_pb2.Relation, names: Sequence[str]) -> relations_pb2.Relation:
    """Return a query with its columns renamed."""
    renamed = relations_pb2.Relation()
    renamed.to_df.input.CopyFrom(query)
    renamed.to_df.column_names.extend(names)
    return renamed


def to_spark_path(path: StoragePath | str) -> str:
    """Return a path in the form that Spark expects: object stores have ``s3a://``."""
    name = str(path)
    return f"s3a://{name.removeprefix('s3://')}" if name.startswith("s3://") else name


def encode_schema(schema: StructType) -> str:
    """Return a schema in JSON format."""
    return json.dumps(schema.jsonValue())


def decode_schema(text: str) -> StructType:
    """Return the schema that :func:`encode_schema` has encoded."""
    return StructType.fromJson(json.loads(text))
