"""Catalog calls for tables in workspaces, such as ``tableExists("dfs.tmp.t")``.

The Spark catalog contains temporary tables only under their unqualified names, and does not contain workspaces. Catalog
calls that change or remove a table are Lodge statements, which are executed elsewhere.

Source: [spark-connect-proto], ``catalog.proto``; [temporary-tables §5.1.8], [temporary-tables §5.1.10].
"""

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql.connect.proto import catalog_pb2, relations_pb2

from gateway.errors import GatewayError
from gateway.names.name_lookup import NameLookup
from gateway.names.targets import schema_not_found
from gateway.operations.responses import encode_arrow_stream
from gateway.sql.name_syntax import parse_name, quote_name
from gateway.stored_tables.listings import list_workspace_tables
from gateway.stored_tables.table_descriptions import list_permanent_tables
from workspace.workspaces import Workspace

_TABLE_CALLS = frozenset(
    {
        "list_columns",
        "get_table",
        "table_exists",
        "is_cached",
        "cache_table",
        "uncache_table",
        "refresh_table",
        "list_partitions",
        "get_table_properties",
        "analyze_table",
    }
)
_NAMESPACE_CALLS = frozenset({"list_tables", "list_views", "database_exists"})


def resolve_catalog_call(lookup: NameLookup, relation: relations_pb2.Relation) -> bool:
    """Resolve a catalog call that refers to a workspace.

    The call is replaced either by a call that Spark can execute, or directly by its result.

    Returns:
        Whether the relation was changed.

    Raises:
        GatewayError: If the name cannot be resolved, or refers to a file that the call does not support.
    """
    kind = relation.catalog.WhichOneof("cat_type")
    if kind in _TABLE_CALLS:
        return _resolve_table(lookup, relation, str(kind))
    if kind in _NAMESPACE_CALLS:
        return _resolve_namespace(lookup, relation, str(kind))
    return False


def _resolve_table(lookup: NameLookup, relation: relations_pb2.Relation, kind: str) -> bool:
    call = getattr(relation.catalog, kind)
    parts = _parse_table_name(call)
    match = lookup.workspaces.match(parts[:-1])
    if match is None:
        return False
    workspace, count = match
    rest = parts[count:]
    table = lookup.find_temporary_table(workspace, rest[0]) if len(rest) == 1 else None
    if table is not None:
        call.table_name = quote_name(table.name)
        if "db_name" in call.DESCRIPTOR.fields_by_name:
            call.ClearField("db_name")
        return True
    name = f"{workspace.name}.{'.'.join(map(quote_name, rest))}"
    try:
        lookup.build_scan(workspace, rest)
    except GatewayError as error:
        if kind != "table_exists":
            raise
        if error.condition not in ("TABLE_OR_VIEW_NOT_FOUND", "SCHEMA_NOT_FOUND"):
            raise
        _replace_with_rows(relation, pa.table({"value": [False]}))
        return True
    if kind == "table_exists":
        _replace_with_rows(relation, pa.table({"value": [True]}))
        return True
    raise GatewayError(
        "LODGE_CATALOG_OF_FILE",
        "0A000",
        f"[{name}] is a file, but spark.catalog supports only tables. Use the DataFrame: spark.table({name!r}).",
    )


def _parse_table_name(call: catalog_pb2.TableExists) -> Sequence[str]:
    """Return the parts of the table name. The database may be in a separate field."""
    if "db_name" in call.DESCRIPTOR.fields_by_name and call.HasField("db_name"):
        name = parse_name(call.table_name)
        return [*parse_name(call.db_name), name[0] if len(name) == 1 else call.table_name]
    return parse_name(call.table_name)


def _resolve_namespace(lookup: NameLookup, relation: relations_pb2.Relation, kind: str) -> bool:
    call = getattr(relation.catalog, kind)
    parts = parse_name(call.db_name)
    match = lookup.workspaces.match(parts)
    if match is None:
        return False
    is_whole = match[1] == len(parts)
    if kind == "database_exists":
        _replace_with_rows(relation, pa.table({"value": [is_whole]}))
    elif not is_whole:
        raise schema_not_found(".".join(parts), lookup.workspaces)
    else:
        pattern = call.pattern if call.HasField("pattern") else None
        _replace_with_rows(relation, _list_tables(lookup, match[0], pattern, kind))
    return True


def _list_tables(lookup: NameLookup, workspace: Workspace, pattern: str | None, kind: str) -> pa.Table:
    """Return the tables of a workspace in the format of Spark's ``Table`` rows.

    The result of ``list_views`` is empty, because workspaces do not contain views.
    """
    found = list_workspace_tables(
        lookup.tables if workspace is lookup.workspaces.temporary else (),
        list_permanent_tables(workspace),
        workspace.name,
        pattern,
    ).slice(0, 0 if kind == "list_views" else None)
    rows = found.to_pylist()
    texts, flags = pa.string(), [row["isTemporary"] for row in rows]
    return pa.table(
        {
            "name": pa.array([row["tableName"] for row in rows], texts),
            "catalog": pa.array([None] * len(rows), texts),
            "namespace": pa.array([workspace.name.split(".")] * len(rows), pa.list_(texts)),
            "description": pa.array([None] * len(rows), texts),
            "tableType": pa.array(["TEMPORARY" if is_temporary else "MANAGED" for is_temporary in flags], texts),
            "isTemporary": pa.array(flags, pa.bool_()),
        }
    )


def _replace_with_rows(relation: relations_pb2.Relation, rows: pa.Table) -> None:
    """Replace a catalog call with its result."""
    relation.local_relation.data = encode_arrow_stream(rows)
