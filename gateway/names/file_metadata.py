"""Finds the queries that read the column ``_metadata`` of a temporary table.

A temporary table is a view, and Spark hides the column ``_metadata`` behind every view. If Spark cannot resolve the
column in the text of a query, the text reads the files of the tables directly, in relations with ``_metadata`` as an
ordinary column.

Guarantees:

1. A query that Spark can analyze stays as it is.
2. Spark's column is hidden, the ordinary one is not. A query in which this could make a difference is refused.
3. The column contains no path of the server.

Not guaranteed: the operations of DataFrames, and statements other than queries, cannot read the column. The queries of
``INSERT`` into a temporary table, and of ``CREATE TEMPORARY TABLE … AS``, can.

Source: "File metadata columns" in [spark-data-source]; ``View.metadataOutput``.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol

from google.protobuf.message import Message
from pyspark.sql.connect.proto import relations_pb2

from gateway.errors import GatewayError
from gateway.names.plan_messages import find_messages_with_names
from gateway.sql.column_pruning import find_mentioned_names
from gateway.sql.cursor import Cursor
from gateway.sql.lexer import Dialect, Token, TokenKind
from gateway.sql.piecewise_search import is_found
from gateway.sql.read_only_query import is_read_only_query
from gateway.sql.table_walk import TableWalk
from gateway.stored_tables.table_plans import FILE_METADATA
from workspace.name_comparison import comparable_name
from workspace.records import TemporaryTable

MAX_QUERIES = 16
"""The maximum number of such queries in one plan. Each gets copies of the relations of its tables."""

_MENTION = re.compile(rf"\b{FILE_METADATA}\b", re.IGNORECASE)
_AFTER_TABLE = frozenset(
    {"JOIN", "CROSS", "INNER", "FULL", "ANTI", "SEMI", "LEFT", "RIGHT", "ON", "WHERE", "GROUP", "HAVING", "ORDER"}
    | {"SORT", "CLUSTER", "DISTRIBUTE", "LIMIT", "OFFSET", "WINDOW", "QUALIFY", "UNION", "INTERSECT", "EXCEPT"}
    | {"MINUS", "SETMINUS", "SELECT"}
)
"""Keywords after a table that are not its alias."""

_UNSUPPORTED = frozenset({"USING", "LATERAL", "WITH"})
_BEFORE_OPERAND = frozenset(
    {"SELECT", "DISTINCT", "ALL", "BY", "WHERE", "HAVING", "ON", "AND", "OR", "NOT", "IN", "LIKE", "BETWEEN", "CASE"}
    | {"WHEN", "THEN", "ELSE"}
)


class FileMetadata(Protocol):
    """What is known about the files of the temporary tables of a session."""

    async def is_file_metadata_missing(self, query: relations_pb2.Relation) -> bool:
        """Return whether Spark cannot analyze a query because it does not find the column ``_metadata``."""
        ...

    async def rows_with_file_metadata(self, table: TemporaryTable) -> relations_pb2.Relation | None:
        """Return the rows of a table with the column ``_metadata``. None if the table has its own such column."""
        ...


class ReadTable(NamedTuple):
    """A temporary table that a text reads.

    Attributes:
        start: The offset of its name.
        end: The offset after its name.
        table: The table.
        has_alias: Whether an alias follows.
    """

    start: int
    end: int
    table: TemporaryTable
    has_alias: bool


ReadWithMetadata = tuple[ReadTable, relations_pb2.Relation]
"""A temporary table that a text reads, and its rows with the column ``_metadata``."""


def mentions_file_metadata(message: Message) -> bool:
    """Return whether a SQL text in a message contains the name of the column."""
    return any(True for _ in _find_texts(message))


def find_queries(message: Message, dialect: Dialect) -> Sequence[relations_pb2.Relation]:
    """Return the queries in a message whose text contains the name of the column."""
    return [each for each in _find_texts(message) if is_read_only_query(Cursor(each.sql.query, dialect))]


def _find_texts(message: Message) -> Iterator[relations_pb2.Relation]:
    for each in find_messages_with_names(message):
        if isinstance(each, relations_pb2.Relation) and is_found(_MENTION, each.sql.query):
            yield each


def find_read_tables(
    tokens: Sequence[Token], find_table: Callable[[Sequence[str]], TemporaryTable | None]
) -> Sequence[ReadTable]:
    """Return the temporary tables in the ``FROM`` clauses of a query, in order.

    Args:
        tokens: All tokens of the query.
        find_table: A function that returns the temporary table to which the parts of a name refer. None for others.
    """
    walk = TableWalk(tokens)
    names = [name for name in walk.names() if name.is_table and name.in_from and not walk.is_symbol(name.end, "(")]
    found = []
    for name in names:
        parts = [token.value for token in tokens[name.position : name.end : 2]]
        is_common_table = len(parts) == 1 and comparable_name(parts[0]) in walk.common_tables
        table = None if is_common_table else find_table(parts)
        if table is not None:
            following = walk.at(name.end)
            has_alias = following is not None and following.is_name and following.keyword not in _AFTER_TABLE
            found.append(ReadTable(tokens[name.position].start, tokens[name.end - 1].end, table, has_alias))
    return found


def refuse_visible(tokens: Sequence[Token], tables: Sequence[ReadTable]) -> None:
    """Check that a query has the same result if the column ``_metadata`` of its tables is an ordinary one.

    Raises:
        GatewayError: If the result could be another one.
    """
    spans, name = [(read.start, read.end) for read in tables], tables[0].table.name
    walk = TableWalk(tokens)
    is_name_taken = any(found.is_table and _is_column(tokens[found.end - 1]) for found in walk.names())
    uses = [index for index, token in enumerate(tokens) if _is_column(token)]
    if (
        is_name_taken
        or FILE_METADATA in walk.definitions
        or not all(_is_operand(walk, index) for index in uses)
        or any(token.keyword in _UNSUPPORTED for token in tokens)
        or find_mentioned_names(_without_products(tokens), spans) is None
    ):
        raise GatewayError(
            "LODGE_FILE_METADATA",
            "0A000",
            f"The query reads the column [{FILE_METADATA}] of temporary table [{name}] in a form that Lodge does not "
            "support. Read the column in a simple query of its own: with the names of columns in place of [*], and "
            "without WITH, USING, LATERAL, NATURAL, PIVOT, TABLE and pipes.",
        )


def _is_column(token: Token) -> bool:
    return token.is_name and comparable_name(token.value) == FILE_METADATA


def _is_operand(walk: TableWalk, index: int) -> bool:
    """Return whether ``_metadata`` at an index is the column or a field of it, perhaps of a table, and not an alias."""
    if walk.is_symbol(index - 1, "."):
        return not walk.is_symbol(index - 3, ".")
    before, field = walk.at(index - 1), walk.at(index + 2)
    if walk.is_symbol(index + 1, ".") and field is not None and field.is_name:
        return True
    is_operator = before is not None and before.kind is TokenKind.SYMBOL and before.value not in ")]"
    return is_operator or (before is not None and before.keyword in _BEFORE_OPERAND)


def _without_products(tokens: Sequence[Token]) -> Sequence[Token]:
    """Return the tokens without the multiplication signs between a name and an operand."""
    return [token for index, token in enumerate(tokens) if not _is_product(tokens, index)]


def _is_product(tokens: Sequence[Token], index: int) -> bool:
    if not tokens[index].is_symbol("*") or not 0 < index < len(tokens) - 1:
        return False
    before, after = tokens[index - 1], tokens[index + 1]
    is_operand = before.is_name and before.keyword not in {"SELECT", "DISTINCT", "ALL"}
    return is_operand and not after.is_symbol(")") and not after.is_symbol(",") and after.keyword != "FROM"
