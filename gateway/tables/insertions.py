"""Rows that are inserted into a temporary table: how a query's columns become the table's.

Source: Spark: ``INSERT INTO`` (by position, by name, with a list of columns), ``Dataset.to`` for the conversion of
types, which is that of ANSI store assignment.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql.connect.proto import relations_pb2
from pyspark.sql.connect.types import pyspark_types_to_proto_types
from pyspark.sql.types import StructField, StructType

from gateway.errors import GatewayError
from gateway.sql.name_syntax import quote_name
from gateway.stored_tables.table_plans import with_columns_named


@dataclass(frozen=True, slots=True)
class Insertion:
    """Rows for a table.

    Attributes:
        table: The table's name.
        query: The rows; resolved.
        columns: The columns that the statement names, for the query's in order; None if it names none.
        by_name: Whether the query's own names count.
        overwrite: Whether the table has only these rows afterwards.
    """

    table: str
    query: relations_pb2.Relation
    columns: Sequence[str] | None = None
    by_name: bool = False
    overwrite: bool = False


def fitted(insertion: Insertion, query: StructType, table: StructType) -> relations_pb2.Relation:
    """The query with the table's columns, in the table's order and types; a column it does not give is NULL.

    Args:
        insertion: What is inserted.
        query: The schema of its query.
        table: The schema of the table.

    Raises:
        GatewayError: Columns are too many, too few, unknown or named twice.
    """
    names = list(query.names if insertion.by_name else insertion.columns or table.names)
    if len(names) != len(query.names):
        kind = "NOT_ENOUGH" if len(query.names) < len(names) else "TOO_MANY"
        raise GatewayError(
            f"INSERT_COLUMN_ARITY_MISMATCH.{kind}_DATA_COLUMNS",
            "21S01",
            f"Cannot write to [{insertion.table}], the reason is {kind.lower().replace('_', ' ')} data columns: "
            f"Table columns: {_listed(names)}. Data columns: {_listed(query.names)}.",
        )
    known = {name.casefold(): name for name in table.names}
    for name in names:
        if name.casefold() not in known:
            raise GatewayError(
                "UNRESOLVED_COLUMN.WITH_SUGGESTION",
                "42703",
                f"Table [{insertion.table}] has no column {quote_name(name)}. It has: {_listed(table.names)}.",
            )
    own = [known[name.casefold()] for name in names]
    if len(set(own)) < len(own):
        raise GatewayError(
            "COLUMN_ALREADY_EXISTS", "42711", f"A column of table [{insertion.table}] is named twice: {_listed(names)}."
        )
    return _converted(with_columns_named(insertion.query, own), table)


def _converted(relation: relations_pb2.Relation, table: StructType) -> relations_pb2.Relation:
    nullable = StructType([StructField(field.name, field.dataType, True, field.metadata) for field in table.fields])
    converted = relations_pb2.Relation()
    converted.to_schema.input.CopyFrom(relation)
    converted.to_schema.schema.CopyFrom(pyspark_types_to_proto_types(nullable))
    return converted


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(quote_name, names))
