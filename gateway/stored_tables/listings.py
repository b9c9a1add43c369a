"""Results of ``SHOW TEMPORARY TABLES``, ``SHOW TABLES`` and ``SHOW CREATE TABLE``.

Source: Spark's ``SHOW TABLES``: its columns, and its patterns (:mod:`gateway.sql.name_patterns`).
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime

import pyarrow as pa
from pyspark.sql.types import StructField, StructType

from gateway.sql.name_patterns import NamePattern
from gateway.sql.name_syntax import quote_name
from gateway.sql.string_literals import quote_string
from gateway.stored_tables.column_metadata import CHAR_OR_VARCHAR, CURRENT_DEFAULT, sql_type
from workspace.records import TableState, TemporaryTable

_SECRET = re.compile("secret|password|token|access[.]?key|credential|url", re.IGNORECASE)
"""Spark's default for ``spark.redaction.regex`` and ``spark.sql.redaction.options.regex``."""

_REDACTED = "*********(redacted)"


def list_temporary_tables(
    tables: Iterable[TemporaryTable], workspace: str, pattern: str | None, now: datetime
) -> pa.Table:
    """Return the temporary tables that can be read, with their size and age.

    Args:
        tables: The temporary tables of a session.
        workspace: The name of the default temporary workspace.
        pattern: The pattern that table names must match. None for all tables.
        now: The current time, which is used to compute the ages.

    Raises:
        GatewayError: If the pattern has too many wildcards.
    """
    is_wanted = _filter(pattern)
    listed = [table for table in _ready(tables) if is_wanted(table.name)]
    return pa.table(
        {
            "namespace": pa.array([workspace] * len(listed), pa.string()),
            "tableName": pa.array([table.name for table in listed], pa.string()),
            "format": pa.array([table.storage_format for table in listed], pa.string()),
            "rows": pa.array([table.rows for table in listed], pa.int64()),
            "bytes": pa.array([table.size_bytes for table in listed], pa.int64()),
            "createdAt": pa.array([_created(table) for table in listed], pa.timestamp("us", tz="UTC")),
            "ageSeconds": pa.array([_age_seconds(table, now) for table in listed], pa.int64()),
        }
    )


def list_workspace_tables(
    tables: Iterable[TemporaryTable], permanent: Sequence[str], workspace: str, pattern: str | None
) -> pa.Table:
    """Return the tables of a workspace with the columns of Spark's ``SHOW TABLES``.

    Args:
        tables: The temporary tables in the workspace.
        permanent: The names of the permanent tables in the workspace.
        workspace: The name of the workspace.
        pattern: The pattern that table names must match. None for all tables.

    Raises:
        GatewayError: If the pattern has too many wildcards.
    """
    found = [(table.name, True) for table in _ready(tables)] + [(name, False) for name in permanent]
    is_wanted = _filter(pattern)
    listed = sorted(each for each in found if is_wanted(each[0]))
    return pa.table(
        {
            "namespace": pa.array([workspace] * len(listed), pa.string()),
            "tableName": pa.array([name for name, _ in listed], pa.string()),
            "isTemporary": pa.array([is_temporary for _, is_temporary in listed], pa.bool_()),
        }
    )


def list_properties(table: str, properties: Mapping[str, str], key: str | None) -> pa.Table:
    """Return properties in the form of ``SHOW TBLPROPERTIES``. As in Spark, secrets are redacted.

    Args:
        table: The name of the table.
        properties: The properties.
        key: The key to show. None for all.
    """
    redacted = redact(properties)
    shown = dict(sorted(redacted.items()))
    if key is not None:
        shown = {key: redacted.get(key, f"Table {table} does not have property: {key}")}
    return pa.table({"key": pa.array(list(shown), pa.string()), "value": pa.array(list(shown.values()), pa.string())})


def build_create_statement(table: TemporaryTable, schema: StructType, workspace: str) -> str:
    """Return a statement that creates an empty table with the same columns.

    As in Spark, properties that may be secrets are redacted.

    Args:
        table: The table.
        schema: The schema of the table.
        workspace: The name of the default temporary workspace.
    """
    columns = ",\n".join(f"  {_column(field)}" for field in schema.fields)
    lines = [
        f"CREATE TEMPORARY TABLE {workspace}.{quote_name(table.name)} (\n{columns})",
        f"USING {table.storage_format}",
    ]
    if table.partition_columns:
        lines.append(f"PARTITIONED BY ({', '.join(map(quote_name, table.partition_columns))})")
    if table.options:
        options = ", ".join(f"{quote_string(key)} = {quote_string(value)}" for key, value in table.options)
        lines.append(f"OPTIONS ({options})")
    properties = redact({key: value for key, value in table.properties if key != "comment"})
    lines += [f"COMMENT {quote_string(value)}" for key, value in table.properties if key == "comment"]
    if properties:
        listed = ", ".join(f"{quote_string(key)} = {quote_string(value)}" for key, value in properties.items())
        lines.append(f"TBLPROPERTIES ({listed})")
    return "\n".join(lines) + "\n"


def redact(properties: Mapping[str, str]) -> Mapping[str, str]:
    """Return properties without values that may be secrets, by their keys and values."""
    return {
        key: _REDACTED if _SECRET.search(key) or _SECRET.search(value) else value for key, value in properties.items()
    }


def _column(field: StructField) -> str:
    metadata = field.metadata or {}
    limited = metadata.get(CHAR_OR_VARCHAR)
    parts = [quote_name(field.name), sql_type(field.dataType) if limited is None else str(limited).upper()]
    if CURRENT_DEFAULT in metadata:
        parts.append(f"DEFAULT {metadata[CURRENT_DEFAULT]}")
    if metadata.get("comment"):
        parts.append(f"COMMENT {quote_string(str(metadata['comment']))}")
    return " ".join(parts)


def _filter(pattern: str | None) -> Callable[[str], bool]:
    """Return the function that says whether a name matches a pattern of ``SHOW TABLES``."""
    return (lambda _: True) if pattern is None else NamePattern(pattern).matches


def _ready(tables: Iterable[TemporaryTable]) -> Sequence[TemporaryTable]:
    return [table for table in tables if table.state is TableState.READY]


def _created(table: TemporaryTable) -> datetime | None:
    return datetime.fromisoformat(table.created_at) if table.created_at else None


def _age_seconds(table: TemporaryTable, now: datetime) -> int | None:
    created = _created(table)
    return None if created is None else max(int((now - created.astimezone(UTC)).total_seconds()), 0)
