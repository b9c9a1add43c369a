"""The rows with which ``DESCRIBE`` shows a temporary table.

Spark describes the columns. Lodge adds what Spark shows for a table of its own, except for the locations of files.

Source: ``DescribeTableCommand`` and ``CatalogTable`` of Spark.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import pyarrow as pa
from pyspark.sql.types import StructType

from gateway.stored_tables.column_metadata import CURRENT_DEFAULT
from gateway.stored_tables.listings import redact
from workspace.name_comparison import comparable_name
from workspace.records import TemporaryTable

COLUMNS = ("col_name", "data_type", "comment")

Row = Sequence[str | None]

_EMPTY = ("", "", "")


def describe(
    table: TemporaryTable,
    schema: StructType,
    columns: Sequence[Row],
    *,
    is_extended: bool,
    partition: Mapping[str, str | None],
) -> pa.Table:
    """Return the rows of ``DESCRIBE``.

    Args:
        table: The table.
        schema: The columns of the table.
        columns: The rows with which Spark describes the columns.
        is_extended: Whether to show the properties of the table.
        partition: The values of the partition to describe. Empty for the whole table.
    """
    names = set(map(comparable_name, table.partition_columns))
    of_partitions = [row for row in columns if comparable_name(row[0] or "") in names]
    rows = [*columns]
    if of_partitions:
        rows += [("# Partition Information", "", ""), ("# col_name", *COLUMNS[1:]), *of_partitions]
    if is_extended:
        details = _of_partition(table, partition) if partition else _of_table(table)
        rows += [_EMPTY, *((key, value, "") for key, value in details)]
    kinds = {row[0]: row[1] for row in columns}
    defaults = {each.name: (each.metadata or {}).get(CURRENT_DEFAULT) for each in schema.fields}
    shown = [(name, kinds.get(name), default) for name, default in defaults.items() if default is not None]
    if shown:
        rows += [_EMPTY, ("# Column Default Values", "", ""), *shown]
    return pa.table({name: pa.array([row[n] for row in rows], pa.string()) for n, name in enumerate(COLUMNS)})


def _of_table(table: TemporaryTable) -> Sequence[tuple[str, str]]:
    properties = {key: value for key, value in table.properties if key != "comment"}
    comment = dict(table.properties).get("comment", "")
    found = [
        ("# Detailed Table Information", ""),
        ("Catalog", "system"),
        ("Database", "session"),
        ("Table", table.name),
        ("Created Time", _created(table)),
        ("Last Access", "UNKNOWN"),
        ("Created By", "Lodge"),
        ("Type", "TEMPORARY"),
        ("Provider", table.storage_format),
        ("Comment", comment),
        ("Table Properties", _listed(redact(properties))),
        ("Storage Properties", _listed(redact(dict(table.options)))),
        ("Partition Provider", "Catalog" if table.partition_columns else ""),
    ]
    return [found[0], *(pair for pair in found if pair[1])]


def _of_partition(table: TemporaryTable, partition: Mapping[str, str | None]) -> Sequence[tuple[str, str]]:
    values = ", ".join(f"{name}={'null' if value is None else value}" for name, value in partition.items())
    options = _listed(redact(dict(table.options)))
    storage = [("Storage Properties", options)] if options else []
    return [
        ("# Detailed Partition Information", ""),
        ("Database", "session"),
        ("Table", table.name),
        ("Partition Values", f"[{values}]"),
        *storage,
        ("Created Time", _created(table)),
        ("Last Access", "UNKNOWN"),
        ("", ""),
        ("# Storage Information", ""),
        *storage,
    ]


def _listed(values: Mapping[str, str]) -> str:
    """Return keys and values as Spark lists them. Empty without any."""
    return f"[{', '.join(f'{key}={value}' for key, value in sorted(values.items()))}]" if values else ""


def _created(table: TemporaryTable) -> str:
    """Return the time of creation in the form of Java's ``Date``."""
    return datetime.fromisoformat(table.created_at).astimezone(UTC).strftime("%a %b %d %H:%M:%S UTC %Y")
