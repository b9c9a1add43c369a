"""Insertions: how Lodge matches the columns of a query to the columns of a table.

Source: Spark's ``INSERT INTO`` by position, by name and with a column list; ``Dataset.to``, which converts values as in
ANSI store assignment.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pyspark.sql.connect.proto import expressions_pb2, relations_pb2
from pyspark.sql.connect.types import pyspark_types_to_proto_types
from pyspark.sql.types import DataType, StructField, StructType

from gateway.backends.session_settings import SessionSettings
from gateway.errors import SparkError
from gateway.sql.name_syntax import quote_name
from gateway.stored_tables.table_plans import rename_columns
from gateway.tables.nested_members import Members


@dataclass(frozen=True, slots=True)
class Insertion:
    """Rows to insert into a table.

    Attributes:
        table: The name of the table.
        query: The query that returns the rows. All names in the query are resolved.
        columns: The column list of the statement, in the order of the query's columns. None without a column list.
        by_name: Whether columns are matched by name instead of by position.
        overwrite: Whether the new rows replace all rows of the table.
        partition: The columns of the ``PARTITION`` clause, each with the SQL text of its value. None for a column that
            the query contains after the columns that are not in the clause.
    """

    table: str
    query: relations_pb2.Relation
    columns: Sequence[str] | None = None
    by_name: bool = False
    overwrite: bool = False
    partition: Mapping[str, str | None] = field(default_factory=dict)


def fit_columns(
    insertion: Insertion, query: StructType, table: StructType, settings: SessionSettings
) -> relations_pb2.Relation:
    """Return the query with the columns, column order and types of the table.

    Columns of the table that the query does not provide are NULL.

    Args:
        insertion: The insertion.
        query: The schema of the query.
        table: The schema of the table.
        settings: The session settings, which determine how names are compared.

    Raises:
        GatewayError: If the number of columns or of members of a struct does not match, a column or a member does not
            exist, or a column is listed twice.
    """
    clause = {settings.comparable_name(name): text for name, text in insertion.partition.items()}
    of_query = [name for name in table.names if settings.comparable_name(name) not in clause]
    of_query += [name for name in table.names if clause.get(settings.comparable_name(name), "") is None]
    names = list(query.names if insertion.by_name else insertion.columns or of_query)
    if len(names) != len(query.names):
        kind = "NOT_ENOUGH" if len(query.names) < len(names) else "TOO_MANY"
        raise SparkError(
            f"INSERT_COLUMN_ARITY_MISMATCH.{kind}_DATA_COLUMNS",
            f"Cannot write to [{insertion.table}], the reason is {kind.lower().replace('_', ' ')} data columns: "
            f"Table columns: {_join(names)}. Data columns: {_join(query.names)}.",
            tableName=quote_name(insertion.table),
            tableColumns=_join(names),
            dataColumns=_join(query.names),
        )
    known = {settings.comparable_name(name): name for name in table.names}
    own = [known.get(settings.comparable_name(name)) for name in names]
    if None in own:
        raise SparkError(
            "UNRESOLVED_COLUMN.WITH_SUGGESTION",
            f"Table [{insertion.table}] has no column {quote_name(names[own.index(None)])}. Its columns are: "
            f"{_join(table.names)}.",
            objectName=quote_name(names[own.index(None)]),
            proposal=_join(table.names),
        )
    found = [name for name in own if name is not None]
    constant = {known[name]: text for name, text in clause.items() if text is not None}
    twice = next((name for name, count in Counter([*found, *constant]).items() if count > 1), None)
    if twice is not None:
        raise SparkError(
            "COLUMN_ALREADY_EXISTS",
            f"The insertion into table [{insertion.table}] lists a column twice: {_join(names)}. List each once.",
            columnName=quote_name(twice),
        )
    types = [
        Members(insertion.table, (name,), insertion.by_name, settings).rename(field.dataType, table[name].dataType)
        for name, field in zip(found, query.fields, strict=True)
    ]
    rows = rename_columns(insertion.query, found)
    replaced = relations_pb2.Relation()
    for name, new, old in zip(found, types, query.fields, strict=True):
        if new != old.dataType:
            _add_cast(replaced, name, new).unresolved_attribute.unparsed_identifier = quote_name(name)
    for name, text in constant.items():
        _add_cast(replaced, name, table[name].dataType).expression_string.expression = text
    if replaced.with_columns.aliases:
        replaced.with_columns.input.CopyFrom(rows)
        rows = replaced
    return _convert(rows, table)


def _add_cast(relation: relations_pb2.Relation, name: str, to: DataType) -> expressions_pb2.Expression:
    """Add a column that is cast to a type to a relation, or replace it. Return the empty expression that is cast."""
    column = relation.with_columns.aliases.add()
    column.name.append(name)
    column.expr.cast.type.CopyFrom(pyspark_types_to_proto_types(to))
    return column.expr.cast.expr


def _convert(relation: relations_pb2.Relation, table: StructType) -> relations_pb2.Relation:
    nullable = StructType([StructField(field.name, field.dataType, True, field.metadata) for field in table.fields])
    converted = relations_pb2.Relation()
    converted.to_schema.input.CopyFrom(relation)
    converted.to_schema.schema.CopyFrom(pyspark_types_to_proto_types(nullable))
    return converted


def _join(names: Sequence[str]) -> str:
    return ", ".join(map(quote_name, names))
