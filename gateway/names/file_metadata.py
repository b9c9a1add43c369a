"""Finds the statements that read the column ``_metadata`` of a temporary table, and gives them this column.

A temporary table is a view, and Spark hides the column ``_metadata`` behind every view. A statement that mentions the
column reads the files of the table directly, in a relation with ``_metadata`` as an ordinary column.

Guarantees:

1. The column contains no path of the server.
2. Spark's column is hidden, the ordinary one is not. A statement whose result would contain the column only for this
   reason is refused. In DataFrames, the column is removed again where an operation would return it.

Source: "File metadata columns" in [spark-data-source]; ``View.metadataOutput``.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, cast

from google.protobuf.descriptor import Descriptor
from google.protobuf.message import Message
from pyspark.sql.connect.proto import commands_pb2, expressions_pb2, relations_pb2

from gateway.errors import GatewayError
from gateway.names.plan_messages import fields_with_names, find_children, find_messages_with_names
from gateway.sql.column_pruning import find_mentioned_names
from gateway.sql.lexer import Token, TokenKind
from gateway.sql.piecewise_search import is_found
from gateway.sql.table_walk import TableWalk
from gateway.stored_tables.table_plans import FILE_METADATA
from workspace.name_comparison import comparable_name

_KEEPS_HIDDEN_COLUMNS = frozenset(
    {"filter", "sort", "with_columns", "limit", "offset", "subquery_alias", "drop", "hint", "repartition"}
)
_KEEPS_ALL_COLUMNS = frozenset({"filter", "sort", "with_columns"})
_READS_COLUMNS = _KEEPS_ALL_COLUMNS | {"project", "aggregate"}
_AFTER_TABLE = frozenset(
    {"JOIN", "CROSS", "INNER", "FULL", "ANTI", "SEMI", "LEFT", "RIGHT", "ON", "USING", "LATERAL", "WHERE", "GROUP"}
    | {"HAVING", "ORDER", "SORT", "CLUSTER", "DISTRIBUTE", "LIMIT", "OFFSET", "WINDOW", "QUALIFY", "UNION"}
    | {"INTERSECT", "EXCEPT", "MINUS", "SELECT", "INSERT", "WITH", "VERSION", "TIMESTAMP", "FOR", "WHEN"}
)
"""Keywords after a table that are not its alias."""

_MENTION = re.compile(rf"\b{FILE_METADATA}\b", re.IGNORECASE)
_BEFORE_WILDCARD = frozenset({"SELECT", "DISTINCT", "ALL"})
_Expression = expressions_pb2.Expression


def find_names(message: Message, tables: Iterable[str]) -> Sequence[str]:
    """Return the names of tables whose column ``_metadata`` a message may read.

    Args:
        message: A request, a plan or a part of a plan.
        tables: The names of all temporary tables.
    """
    if not mentions_file_metadata(message):
        return ()
    texts = [text.lower() for text in _texts(message)]
    return [name for name in tables if any(name.lower() in text for text in texts)]


def mentions_file_metadata(message: Message) -> bool:
    """Return whether a text or a name in a message contains the name of the column."""
    return any(is_found(_MENTION, text) for text in _texts(message))


def _texts(message: Message) -> Iterator[str]:
    for each in find_messages_with_names(message):
        if isinstance(each, relations_pb2.Relation):
            yield each.sql.query
            yield each.read.named_table.unparsed_identifier
        elif isinstance(each, commands_pb2.SqlCommand):
            yield each.sql
        elif isinstance(each, _Expression.UnresolvedAttribute):
            yield each.unparsed_identifier
        elif isinstance(each, _Expression.UnresolvedStar):
            yield each.unparsed_target
        elif isinstance(each, _Expression.ExpressionString):
            yield each.expression


class ReadTable(NamedTuple):
    """A temporary table that a text reads.

    Attributes:
        start: The offset of its name.
        end: The offset after its name.
        name: The last part of the name.
        has_alias: Whether an alias follows.
    """

    start: int
    end: int
    name: str
    has_alias: bool


def find_read_tables(tokens: Sequence[Token], find_table: Callable[[Sequence[str]], str | None]) -> Sequence[ReadTable]:
    """Return the temporary tables whose column ``_metadata`` a statement may read, in order.

    Args:
        tokens: All tokens of the statement.
        find_table: A function that returns the name of the temporary table with that column to which the parts of a
            name refer. None if they refer to something else.

    Raises:
        GatewayError: If the result of the statement would contain the column, although Spark hides it.
    """
    if not any(token.is_name and comparable_name(token.value) == FILE_METADATA for token in tokens):
        return ()
    walk = TableWalk(tokens)
    names = [name for name in walk.names() if name.is_table and name.in_from and not walk.is_symbol(name.end, "(")]
    found = []
    for name in names:
        parts = [token.value for token in tokens[name.position : name.end : 2]]
        is_common_table = len(parts) == 1 and comparable_name(parts[0]) in walk.common_tables
        table = None if is_common_table else find_table(parts)
        if table is not None:
            start, end = tokens[name.position].start, tokens[name.end - 1].end
            found.append(ReadTable(start, end, table, _is_alias(walk.at(name.end))))
    if found and find_mentioned_names(_without_other_stars(tokens), [(one.start, one.end) for one in found]) is None:
        raise _refused(found[0].name)
    return found


def _is_alias(token: Token | None) -> bool:
    return token is not None and token.is_name and token.keyword not in _AFTER_TABLE


def _without_other_stars(tokens: Sequence[Token]) -> Sequence[Token]:
    """Return the tokens without multiplication signs and without the star in ``_metadata.*``."""
    return [
        token
        for index, token in enumerate(tokens)
        if not token.is_symbol("*") or _is_wildcard(tokens[max(index - 2, 0) : index])
    ]


def _is_wildcard(before: Sequence[Token]) -> bool:
    """Return whether a star means all columns of a table.

    Args:
        before: The two tokens before the star.
    """
    if not before:
        return False
    last = before[-1]
    if last.is_symbol("."):
        return comparable_name(before[0].value) != FILE_METADATA
    return (
        last.is_symbol(",")
        or last.is_symbol("(")
        or last.kind is TokenKind.HINT_CLOSE
        or last.keyword in _BEFORE_WILDCARD
    )


def add_file_metadata(
    relations: Sequence[relations_pb2.Relation], find_relation: Callable[[str], relations_pb2.Relation | None]
) -> bool:
    """Give DataFrames the column ``_metadata`` of the temporary tables that they read, in place.

    Args:
        relations: The relations of a plan, innermost first.
        find_relation: A function that returns the relation with that column for the name of a table. None if there is
            none.

    Returns:
        Whether a relation was changed.

    Raises:
        GatewayError: If the column of Spark and the one of the relation cannot be told apart.
    """
    readers: dict[int, tuple[relations_pb2.Relation, relations_pb2.Relation]] = {}
    for relation in relations:
        if _reads_file_metadata(relation):
            table = _find_table(_input_of(relation))
            if table is not None:
                readers[id(table)] = table, relation
    order = {id(relation): position for position, relation in enumerate(relations)}
    is_changed = False
    for table, reader in sorted(readers.values(), key=lambda pair: order[id(pair[1])]):  # inner ones are copied later
        name = table.read.named_table.unparsed_identifier
        found = find_relation(name)
        if found is not None:
            table.subquery_alias.CopyFrom(found.subquery_alias)
            _remove_again(reader, name)
            is_changed = True
    return is_changed


def _reads_file_metadata(relation: relations_pb2.Relation) -> bool:
    """Return whether the expressions of an operation name the column. They no longer ask for a hidden column then."""
    if relation.WhichOneof("rel_type") not in _READS_COLUMNS:
        return False
    is_read = False
    for each in _own_expressions(relation):
        if isinstance(each, _Expression.ExpressionString):
            is_read |= FILE_METADATA in each.expression.lower()
        elif isinstance(each, _Expression.UnresolvedStar):
            is_read |= _is_of_file_metadata(each)
        elif isinstance(each, _Expression.UnresolvedAttribute) and FILE_METADATA in each.unparsed_identifier.lower():
            each.ClearField("is_metadata_column")
            is_read = True
    return is_read


def _is_of_file_metadata(star: expressions_pb2.Expression.UnresolvedStar) -> bool:
    """Return whether a star is ``_metadata.*``."""
    return FILE_METADATA in star.unparsed_target.lower()


def _own_expressions(relation: relations_pb2.Relation) -> Iterator[Message]:
    """Yield the expressions of an operation, without those of its inputs."""
    pending: list[Message] = [_operation(relation)]
    while pending:
        message = pending.pop()
        yield message
        children = find_children(message, fields_with_names(cast("Descriptor", message.DESCRIPTOR)))
        pending.extend(child for child in children if not isinstance(child, relations_pb2.Relation))


def _operation(relation: relations_pb2.Relation) -> Message:
    operation: Message = getattr(relation, cast("str", relation.WhichOneof("rel_type")))
    return operation


def _input_of(relation: relations_pb2.Relation) -> relations_pb2.Relation:
    found: relations_pb2.Relation = getattr(_operation(relation), "input")  # noqa: B009 - of any kind of operation
    return found


def _find_table(relation: relations_pb2.Relation) -> relations_pb2.Relation | None:
    """Return the table whose hidden columns a relation still has."""
    while relation.WhichOneof("rel_type") in _KEEPS_HIDDEN_COLUMNS:
        relation = _input_of(relation)
    is_table = relation.read.HasField("named_table") and not relation.read.is_streaming
    return relation if is_table else None


def _remove_again(reader: relations_pb2.Relation, table: str) -> None:
    """Remove the column from the result of an operation that would return it only because it is an ordinary one."""
    kind = reader.WhichOneof("rel_type")
    if kind == "aggregate":
        return
    if kind == "project":
        stars = [each for each in _own_expressions(reader) if isinstance(each, _Expression.UnresolvedStar)]
        if all(map(_is_of_file_metadata, stars)):
            return
        if any(_is_returned(each) for each in reader.project.expressions):
            raise _refused(table)
    inner = relations_pb2.Relation()
    inner.CopyFrom(reader)
    reader.Clear()
    reader.drop.input.CopyFrom(inner)
    reader.drop.column_names.append(FILE_METADATA)


def _is_returned(expression: expressions_pb2.Expression) -> bool:
    """Return whether an expression of a projection has the name of the column."""
    if expression.HasField("alias"):
        return FILE_METADATA in map(comparable_name, expression.alias.name)
    if expression.HasField("expression_string"):
        return FILE_METADATA in expression.expression_string.expression.lower()
    name = expression.unresolved_attribute.unparsed_identifier.replace("`", "")
    return comparable_name(name.rpartition(".")[2]) == FILE_METADATA


def _refused(table: str) -> GatewayError:
    return GatewayError(
        "LODGE_FILE_METADATA",
        "0A000",
        f"The statement reads the column [{FILE_METADATA}] of temporary table [{table}], and may return all columns of "
        f"a table. Spark hides this column, but that of a temporary table is an ordinary one. Name the columns of the "
        "result instead of [*], TABLE, NATURAL JOIN, PIVOT, UNPIVOT or pipes, without TABLESAMPLE, outside of scripts.",
    )
