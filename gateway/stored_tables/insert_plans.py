"""Plans with which Spark itself inserts rows into a table.

Spark can insert into a temporary view if the view is nothing but a scan of files in one directory. Such a view of a
new, empty directory stands for the table while Spark executes an insertion. Therefore, Spark matches the columns, adds
the default values, converts and checks the values, and writes the files exactly as for a table of its own. The view
exists only while the plan runs, because Spark creates the references of a SQL command as views and drops them
afterwards.

Guarantee: no client can guess the names of these views.

Source: [spark-connect-proto relations.proto], message ``WithRelations``; ``ResolveRelations``,
``PreprocessTableInsertion`` and ``ResolveColumnDefaultInCommandInputQuery`` of Spark.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql.connect.proto import base_pb2, relations_pb2
from pyspark.sql.types import StructType

from gateway.messages.deep_messages import append_copies
from gateway.messages.sql_parameters import copy_parameters
from gateway.stored_tables.column_metadata import with_varchar_only
from gateway.stored_tables.partitions import EMPTY_FILE, partition_path
from gateway.stored_tables.table_plans import PRIVATE_FILES, add_row_count, encode_schema
from workspace.identifiers import TableUuid
from workspace.name_comparison import comparable_name

PLACEHOLDER = "lodge_insertion_"
"""The beginning of the names of views that exist only while Spark executes an insertion."""


@dataclass(frozen=True, slots=True)
class NewPart:
    """An empty directory for the rows of an insertion.

    Attributes:
        directory: The name of the directory, which is also the id of the operation that writes the rows.
        path: The path of the directory, in Spark's form.
        schema: The columns of the table. The partition columns are the last.
        storage_format: The name of the data source.
        options: The options of the data source.
    """

    directory: TableUuid
    path: str
    schema: StructType
    storage_format: str
    options: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class InsertedRows:
    """The rows of an insertion, and how they are inserted.

    Attributes:
        query: The query that returns the rows, with all names resolved.
        clause: The text between the table and the query of an ``INSERT`` statement, such as ``BY NAME``.
        arguments: The SQL relation whose parameters occur in the clause. None without parameters.
        has_defaults: Whether the text of the query may contain ``DEFAULT`` as a value. Spark replaces it only if the
            query is part of the text of the insertion, so Spark does not count the rows.
        is_counted: Whether Spark counts the rows, because the part contains no others.
    """

    query: relations_pb2.Relation
    clause: str = ""
    arguments: relations_pb2.SQL | None = None
    has_defaults: bool = False
    is_counted: bool = True


def build_insert(part: NewPart, rows: InsertedRows) -> base_pb2.Plan:
    """Return the plan that inserts rows into a new part of a table, and counts them if possible."""
    plan = base_pb2.Plan()
    command = plan.command.sql_command.input.with_relations
    suffix = part.directory.replace("-", "_")
    target, source = f"{PLACEHOLDER}part_{suffix}", f"{PLACEHOLDER}rows_{suffix}"
    sql = command.root.sql
    sql.query = f"INSERT INTO {target} {rows.clause} "
    if rows.arguments is not None:
        copy_parameters(rows.arguments, sql)
    if rows.has_defaults:
        _append_text(rows.query, command)
    else:
        sql.query += f"TABLE {source}"
        reference = command.references.add().subquery_alias
        reference.alias = source
        if rows.is_counted:
            add_row_count(reference.input, rows.query, part.directory)
        else:
            reference.input.CopyFrom(rows.query)
    reference = command.references.add().subquery_alias
    reference.alias = target
    _fill_scan(reference.input.read.data_source, part)
    return plan


def _append_text(query: relations_pb2.Relation, command: relations_pb2.WithRelations) -> None:
    """Append the text of a query to the text of a command, with its parameters and references."""
    if query.HasField("with_relations"):
        append_copies(command.references, query.with_relations.references)
        query = query.with_relations.root
    command.root.sql.query += query.sql.query
    copy_parameters(query.sql, command.root.sql)


def no_rows(schema: StructType) -> InsertedRows:
    """Return an insertion of no rows, for which Spark checks all default values of a table."""
    query = relations_pb2.Relation()
    query.sql.query = f"SELECT {', '.join(['DEFAULT'] * len(schema.fields))} WHERE FALSE"
    return InsertedRows(query, has_defaults=True)


def empty_file(schema: StructType, partition_columns: Sequence[str]) -> Sequence[str]:
    """Return the path of an empty file below the directory of a new part, as a sequence of names.

    Spark finds out from existing files which columns divide them. Without partitions, Spark ignores the file.

    Args:
        schema: The columns of the table.
        partition_columns: The partition columns. Their case may differ from that in the schema.
    """
    if not partition_columns:
        return (f"_{EMPTY_FILE}",)
    spelled = {comparable_name(name): name for name in schema.names}
    names = [spelled[comparable_name(name)] for name in partition_columns]
    return (*partition_path(names, [None] * len(names)).split("/"), EMPTY_FILE)


def _fill_scan(scan: relations_pb2.Read.DataSource, part: NewPart) -> None:
    scan.format = part.storage_format
    scan.schema = _insertable_schema(part.schema)
    scan.paths.append(part.path)
    scan.options.update({**part.options, **PRIVATE_FILES})


def _insertable_schema(schema: StructType) -> str:
    """Return a schema in JSON format in which ``CHAR`` is replaced with ``VARCHAR``.

    Spark pads the values of ``CHAR`` columns when it reads them, and a view that pads is no scan any more. For both
    types, Spark refuses the same values.
    """
    columns: dict[str, Any] = json.loads(encode_schema(schema))
    for column in columns["fields"]:
        column["metadata"] = with_varchar_only(column["metadata"])
    return json.dumps(columns)
