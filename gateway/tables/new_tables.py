"""A table that is to be created, temporary or permanent: what is asked for, and what is checked before it is written.

Source: seed 001, 5.1.3, 5.1.4 and 5.4.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql.connect.proto import base_pb2, relations_pb2
from pyspark.sql.types import StructField, StructType

from gateway.errors import GatewayError
from gateway.stored_tables.storage_formats import StorageFormat, check_columns, refuse_partitions, storage_format
from gateway.stored_tables.table_plans import with_columns_named, write_plan
from gateway.tables.writes import Execution


@dataclass(frozen=True, slots=True)
class NewTable:
    """A table that is to be created.

    Attributes:
        name: Its own, without the workspace.
        query: Its rows; resolved. Of a table without any, an empty relation of its columns.
        columns: What the columns are called; None for the query's own names.
        storage_format: As the statement gives it; None for the session's.
        partition_columns: The columns it is partitioned by.
        options: Of the storage format, as the statement gives them.
        if_not_exists: Whether a table of that name may exist.
    """

    name: str
    query: relations_pb2.Relation
    columns: Sequence[str] | None = None
    storage_format: str | None = None
    partition_columns: Sequence[str] = ()
    options: tuple[tuple[str, str], ...] = ()
    if_not_exists: bool = False


class AlreadyExistsError(GatewayError):
    """Seed 001, 5.4: a duplicated table or view name."""

    def __init__(self, name: str, schema: str) -> None:
        self.text = f"A table or view with given name [{name}] already exists in schema [{schema}]."
        super().__init__("TABLE_OR_VIEW_ALREADY_EXISTS", "42P07", self.text)


@dataclass(frozen=True, slots=True)
class Storing:
    """How a new table is stored.

    Attributes:
        format: What in.
        options: What to write with.
    """

    format: StorageFormat
    options: Mapping[str, str]

    @classmethod
    def of(cls, new: NewTable, execution: Execution) -> "Storing":
        """Raises: GatewayError, for a format or an option that there is not."""
        storage = storage_format(new.storage_format or execution.settings.store_format, new.name)
        return cls(storage, storage.options(dict(new.options)))


@dataclass(frozen=True, slots=True)
class WritableTable:
    """A new table that can be written as it is asked for, and read back.

    Attributes:
        new: What is asked for.
        schema: Of its rows, with the columns called as asked.
        storing: How it is stored.
    """

    new: NewTable
    schema: StructType
    storing: Storing

    @classmethod
    async def of(cls, new: NewTable, storing: Storing, execution: Execution) -> "WritableTable":
        """Raises: GatewayError, for what cannot be."""
        schema = _named(await execution.backend.analyze_schema(new.query), new.columns)
        _check_partition_columns(schema, new.partition_columns)
        if new.partition_columns and not storing.format.is_partitionable:
            raise refuse_partitions(storing.format)
        check_columns(storing.format, schema, new.partition_columns)
        return cls(new, schema, storing)

    def plan(self, path: str) -> base_pb2.Plan:
        """What writes its rows to a path."""
        query = self.new.query if self.new.columns is None else with_columns_named(self.new.query, self.new.columns)
        return write_plan(
            query,
            path,
            storage_format=self.storing.format.name,
            partition_columns=self.new.partition_columns,
            options=self.storing.options,
        )


def _named(schema: StructType, columns: Sequence[str] | None) -> StructType:
    """The schema with the columns called so. Raises: GatewayError if there are more or fewer (seed 001, 5.4)."""
    if columns is None:
        return schema
    if len(columns) != len(schema.fields):
        raise GatewayError(
            "CREATE_VIEW_COLUMN_ARITY_MISMATCH",
            "21S01",
            "Table's field list and the table's query field list have different counts.",
        )
    fields = zip(columns, schema.fields, strict=True)
    return StructType([StructField(name, field.dataType, field.nullable, field.metadata) for name, field in fields])


def _check_partition_columns(schema: StructType, columns: Sequence[str]) -> None:
    """Raises: GatewayError if one is not among the table's (seed 001, 5.4)."""
    names = {name.casefold() for name in schema.names}
    for column in columns:
        if column.casefold() not in names:
            raise GatewayError(
                "COLUMN_NOT_FOUND", "42703", f"Partition column {column} is not in the SELECT list of CTAS!"
            )
