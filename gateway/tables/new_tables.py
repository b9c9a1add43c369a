"""A new table, temporary or permanent, and the checks before its rows are written.

Source: [temporary-tables §5.1.3, §5.1.4, §5.4].
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from types import MappingProxyType

from pyspark.sql.connect.proto import base_pb2, relations_pb2
from pyspark.sql.types import StructField, StructType

from gateway.backends.session_settings import SessionSettings
from gateway.errors import SparkError
from gateway.sql.name_syntax import quote_name
from gateway.sql.statements import CreateTable, CreateTemporaryTable
from gateway.stored_tables.column_metadata import without_limits_and_default
from gateway.stored_tables.storage_formats import (
    StorageFormat,
    check_columns,
    check_properties,
    find_storage_format,
)
from gateway.stored_tables.table_plans import build_write, rename_columns
from gateway.tables.statement_context import Execution
from workspace.records import PendingWrite, TableState, TemporaryTable


@dataclass(frozen=True, slots=True)
class NewTable:
    """A table that a statement creates.

    Attributes:
        name: The name of the table, without its workspace.
        query: The query that returns the rows, with all names resolved. For an empty table, an empty relation that has
            the columns of the table.
        storage: The storage format.
        columns: The column names. If None, the table has the column names of the query.
        partition_columns: The columns by which the table is partitioned.
        options: The options of the storage format that the statement sets.
        properties: The properties of the table.
        if_not_exists: Whether the statement has an IF NOT EXISTS clause.
        has_defaults: Whether the statement defines default values.
        or_replace: Whether the table replaces one with the same name.
    """

    name: str
    query: relations_pb2.Relation
    storage: StorageFormat
    columns: Sequence[str] | None = None
    partition_columns: Sequence[str] = ()
    options: tuple[tuple[str, str], ...] = ()
    properties: tuple[tuple[str, str], ...] = ()
    if_not_exists: bool = False
    has_defaults: bool = False
    or_replace: bool = False

    @classmethod
    def of_statement(
        cls,
        name: str,
        query: relations_pb2.Relation,
        statement: CreateTemporaryTable | CreateTable,
        settings: SessionSettings,
    ) -> "NewTable":
        """Return the table that a statement creates.

        Args:
            name: The name of the table, without its workspace.
            query: The query that returns the rows, with all names resolved.
            statement: The statement.
            settings: The session settings, which include the default storage format.

        Raises:
            GatewayError: If the storage format does not exist, or an option is not allowed, is too long, or there
                are too many.
        """
        new = cls.of_query(
            name,
            query,
            find_storage_format(statement.storage_format or settings.store_format, name),
            partition_columns=statement.partition_columns,
            options=statement.options,
            properties=statement.properties,
        )
        return replace(
            new,
            columns=statement.columns,
            if_not_exists=statement.if_not_exists,
            or_replace=isinstance(statement, CreateTemporaryTable) and statement.or_replace,
        )

    @classmethod
    def of_query(
        cls,
        name: str,
        query: relations_pb2.Relation,
        storage: StorageFormat,
        *,
        partition_columns: Sequence[str],
        options: Mapping[str, str],
        properties: Mapping[str, str] = MappingProxyType({}),
    ) -> "NewTable":
        """Return the table for the rows of a query.

        Raises:
            GatewayError: If an option is not allowed, is too long, or there are too many.
        """
        storage.check_options(options)
        check_properties(properties)
        return cls(
            name=name,
            query=query,
            storage=storage,
            partition_columns=partition_columns,
            options=tuple(options.items()),
            properties=tuple(properties.items()),
        )

    def table(self, write: PendingWrite) -> TemporaryTable:
        """Return the table before its rows are written."""
        return TemporaryTable(
            name=self.name,
            uuid=write.directory,
            state=TableState.CREATING,
            storage_format=self.storage.name,
            created_at=datetime.now(UTC).isoformat(timespec="seconds"),
            partition_columns=tuple(self.partition_columns),
            options=self.options,
            writes=(write,),
            properties=self.properties,
        )

    async def schema(self, execution: Execution) -> StructType:
        """Return the schema of the table. The partition columns are the last, as in a table of Spark.

        Partition columns have neither a default value nor ``CHAR`` or ``VARCHAR``, because Spark reads only their names
        and values from directories.

        Args:
            execution: The statement that creates the table.

        Raises:
            GatewayError: If the query fails, or the storage format does not support its columns.
        """
        schema = _rename(self.name, await execution.backend.analyze_schema(self.query), self.columns)
        comparable = execution.settings.comparable_name
        names = {comparable(name) for name in schema.names}
        for column in self.partition_columns:
            if comparable(column) not in names:
                raise SparkError(
                    "COLUMN_NOT_FOUND",
                    f"Partition column {column} is not in the SELECT list of CTAS!",
                    colName=quote_name(column),
                    caseSensitiveConfig='"spark.sql.caseSensitive"',
                )
        check_columns(self.storage, schema, self.partition_columns)
        last = {comparable(column): position for position, column in enumerate(self.partition_columns)}
        fields = [
            without_limits_and_default(field) if comparable(field.name) in last else field for field in schema.fields
        ]
        return StructType(sorted(fields, key=lambda field: last.get(comparable(field.name), -1)))

    def plan(self, path: str) -> base_pb2.Plan:
        """Return the plan that writes the rows to a path."""
        return build_write(
            self.query if self.columns is None else rename_columns(self.query, self.columns),
            path,
            storage_format=self.storage.name,
            partition_columns=self.partition_columns,
            options=self.storage.options(dict(self.options)),
        )


def _rename(table: str, schema: StructType, columns: Sequence[str] | None) -> StructType:
    """Return a schema with the given column names.

    Raises:
        GatewayError: If the number of names differs from the number of columns [temporary-tables §5.4].
    """
    if columns is None:
        return schema
    if len(columns) != len(schema.fields):
        kind = "NOT_ENOUGH" if len(schema.fields) < len(columns) else "TOO_MANY"
        raise SparkError(
            f"CREATE_VIEW_COLUMN_ARITY_MISMATCH.{kind}_DATA_COLUMNS",
            "Table's field list and the table's query field list have different counts.",
            viewName=quote_name(table),
            viewColumns=", ".join(map(quote_name, columns)),
            dataColumns=", ".join(map(quote_name, schema.names)),
        )
    fields = zip(columns, schema.fields, strict=True)
    return StructType([StructField(name, field.dataType, field.nullable, field.metadata) for name, field in fields])
