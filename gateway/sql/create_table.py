"""Parses ``CREATE TEMPORARY TABLE`` and ``CREATE TABLE``.

Guarantees:

1. A ``CREATE TEMPORARY TABLE`` statement without a query is left to Spark if it specifies a format that is not in
   ``DEFINABLE_FORMATS``, specifies a path, or does not define columns. Spark creates a view of such a source.
2. A query span always contains a read-only query.

Source: [temporary-tables §5.1.1], [spark-sql-grammar createTable], [spark-sql-grammar createTableClauses],
``SparkSqlAstBuilder.visitCreateTable``.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from gateway.sql.cursor import Cursor
from gateway.sql.lexer import Token
from gateway.sql.read_only_query import find_data_change, is_query_start
from gateway.sql.statement_error import StatementError
from gateway.sql.statements import CreateTable, CreateTemporaryTable, Name, Span, TableName
from gateway.sql.string_literals import read_strings
from gateway.sql.table_options import TableOptionsError, parse_property_list

DEFINABLE_FORMATS = frozenset({"parquet", "json", "csv", "orc"})
_PATH_OPTIONS = frozenset({"path", "location"})
_CLAUSES = frozenset({"USING", "OPTIONS", "COMMENT", "TBLPROPERTIES"})
_ALTERNATIVES = {
    "LOCATION": "Remove it. Lodge chooses where a temporary table is stored",
    "CLUSTER": "Use PARTITION BY",
    "CLUSTERED": "Use PARTITION BY",
    "SKEWED": "Use PARTITION BY",
    "ROW": "Use USING with a format, and OPTIONS",
    "STORED": "Use USING with a format",
    "DEFAULT": "Remove it",
}
_SECOND_WORDS = {
    "CLUSTER": "BY",
    "CLUSTERED": "BY",
    "SKEWED": "BY",
    "ROW": "FORMAT",
    "STORED": "AS",
    "DEFAULT": "COLLATION",
}


@dataclass
class _Body:
    """The part of the statement after the name, as far as it has been parsed."""

    columns: tuple[str, ...] | None = None
    storage_format: str | None = None
    partition_columns: tuple[str, ...] = ()
    partition_definition_span: Span | None = None
    options: dict[str, str] = field(default_factory=dict)
    properties: dict[str, str] = field(default_factory=dict)
    query_span: Span | None = None
    definition_span: Span | None = None
    like: TableName | None = None


def parse_create_temporary_table(cursor: Cursor, *, or_replace: bool = False) -> CreateTemporaryTable | None:
    """Parse the text after ``CREATE [OR REPLACE] TEMPORARY TABLE``.

    Returns:
        The statement. None if the statement is left to Spark.

    Raises:
        StatementError: If a clause is malformed or not supported.
    """
    cursor.statement = "CREATE OR REPLACE TEMPORARY TABLE" if or_replace else "CREATE TEMPORARY TABLE"
    condition = cursor.current
    if_not_exists = cursor.take("IF", "NOT", "EXISTS")
    name = cursor.take_name()
    if not or_replace and _is_for_spark(cursor):
        return None
    if or_replace and if_not_exists:
        raise cursor.error("OR REPLACE and IF NOT EXISTS exclude each other. Remove one of them.", condition)
    if name is None:
        raise cursor.syntax_error("a name")
    body = _Body()
    _parse_body(cursor, body)
    return CreateTemporaryTable(name=name, if_not_exists=if_not_exists, or_replace=or_replace, **vars(body))


def parse_create_table(cursor: Cursor, *, has_other_clauses: bool) -> CreateTable | None:
    """Parse the text after ``CREATE TABLE``.

    Args:
        cursor: A cursor at the token after ``TABLE``.
        has_other_clauses: Whether there are other words between ``CREATE`` and ``TABLE``.

    Returns:
        The statement. None if the table name has only one part.
    """
    if_not_exists = cursor.take("IF", "NOT", "EXISTS")
    name = cursor.take_name()
    if name is None or (isinstance(name, Name) and len(name.parts) == 1):
        return None
    body = _Body()
    try:
        _parse_body(cursor, body)
    except StatementError:
        has_other_clauses = True
    has_other_clauses = has_other_clauses or body.query_span is None
    return CreateTable(name=name, if_not_exists=if_not_exists, has_other_clauses=has_other_clauses, **vars(body))


def _is_for_spark(cursor: Cursor) -> bool:
    """Return whether the statement is left to Spark (guarantee 1).

    The cursor must be at the token after the name.
    """
    if cursor.keyword() == "LIKE":
        return False
    names_source = names_path = names_format = names_location = False
    before, last = "", cursor.position
    for index, token in cursor.outside_brackets():
        word = token.keyword
        if before == "USING":
            names_format = True
            names_source = names_source or not _is_definable_format(token, cursor.at(index + 1))
        elif (word == "AS" and before != "STORED") or word == "SELECT":
            return False
        names_location = names_location or word == "LOCATION"
        names_path = names_path or (before == "OPTIONS" and _names_path(cursor.all_tokens()[last + 1 : index]))
        before, last = word, index
    has_columns = cursor.is_symbol("(")
    return not has_columns or names_source or names_path or (names_location and names_format)


def _is_definable_format(token: Token, following: Token | None) -> bool:
    is_dotted = following is not None and following.is_symbol(".")
    return token.is_name and not is_dotted and token.value.lower() in DEFINABLE_FORMATS


def _names_path(options: Sequence[Token]) -> bool:
    """Return whether one of the option keys is a path.

    The first token must be the opening bracket.
    """
    keys = (key for before, key in pairwise(options) if before.is_symbol("(") or before.is_symbol(","))
    texts = (key.value if key.is_name else read_strings([key]) for key in keys)
    return any(text is not None and text.lower() in _PATH_OPTIONS for text in texts)


def _parse_body(cursor: Cursor, body: _Body) -> None:
    """Parse the text after the name into the body.

    Raises:
        StatementError: If a clause is malformed or not supported. The body then contains the clauses before this
            clause.
    """
    if cursor.take("LIKE"):
        body.like = cursor.expect_name()
        body.storage_format = _parse_format(cursor) if cursor.take("USING") else None
        _expect_end(cursor)
        return
    opening = cursor.current
    if cursor.is_symbol("("):
        _parse_columns(cursor, body)
    _parse_clauses(cursor, body)
    if body.definition_span is not None:
        if cursor.take("AS"):
            raise cursor.error(
                f"In {cursor.statement}, columns before AS cannot have types. The query determines the types.", opening
            )
        _expect_end(cursor)
    elif cursor.current is None and body.columns is not None:
        raise cursor.error(f"In {cursor.statement}, columns need types, or AS and a query after them.", opening)
    else:
        _parse_query(cursor, body)


def _parse_columns(cursor: Cursor, body: _Body) -> None:
    if _has_types(cursor):
        body.definition_span = _expect_brackets(cursor)
    else:
        body.columns = cursor.expect_columns()


def _parse_partition_columns(cursor: Cursor, body: _Body) -> None:
    """Parse the columns after ``PARTITION BY``. They can have types if the columns before have types."""
    if body.definition_span is not None and _has_types(cursor):
        body.partition_definition_span = _expect_brackets(cursor)
    else:
        body.partition_columns = cursor.expect_columns()


def _expect_brackets(cursor: Cursor) -> Span:
    """Step over brackets and return the span of their content."""
    opening = cursor.current
    if opening is None or not cursor.take_brackets():
        cursor.position = len(cursor.all_tokens())
        raise cursor.syntax_error("')'")
    return (opening.end, cursor.previous_end - 1)


def _has_types(cursor: Cursor) -> bool:
    """Return whether the column list at the cursor contains types.

    A column list contains types if a name is followed by another word.
    """
    if not cursor.is_symbol("("):
        return False
    start, has_types = cursor.position, False
    cursor.position += 1
    while not has_types and cursor.take_part() is not None:
        current = cursor.current
        has_types = current is not None and current.is_name
        if not has_types and not cursor.take_symbol(","):
            break
    cursor.position = start
    return has_types


def _parse_clauses(cursor: Cursor, body: _Body) -> None:
    seen = set[str]()
    while clause := _find_clause(cursor):
        if clause in seen:
            raise cursor.error(f"{clause} occurs twice in {cursor.statement}. Use it once.")
        seen.add(clause)
        if clause in _ALTERNATIVES:
            words = f"{clause} {_SECOND_WORDS.get(clause, '')}".rstrip()
            raise cursor.error(f"{words} is not supported in {cursor.statement}. {_ALTERNATIVES[clause]}.")
        if clause == "USING":
            cursor.take("USING")
            body.storage_format = _parse_format(cursor)
        elif clause == "PARTITION BY":
            cursor.position += 2
            _parse_partition_columns(cursor, body)
        elif clause == "COMMENT":
            cursor.take("COMMENT")
            comment = cursor.take_strings()
            if comment is None:
                raise cursor.syntax_error("a comment between quotes")
            body.properties["comment"] = comment
        elif clause == "TBLPROPERTIES":
            cursor.take("TBLPROPERTIES")
            body.properties |= _parse_options(cursor)
        else:
            cursor.take("OPTIONS")
            body.options = _parse_options(cursor)


def _find_clause(cursor: Cursor) -> str:
    """Return the clause that begins at the cursor. Empty if there is none."""
    word = cursor.keyword()
    if word in ("PARTITION", "PARTITIONED") and cursor.keyword(1) == "BY":
        return "PARTITION BY"
    return word if word in _CLAUSES or word in _ALTERNATIVES else ""


def _parse_format(cursor: Cursor) -> str:
    parts = [cursor.expect_part()]
    while cursor.take_symbol("."):
        parts.append(cursor.expect_part())
    return ".".join(parts)


def _parse_options(cursor: Cursor) -> dict[str, str]:
    if not cursor.is_symbol("("):
        raise cursor.syntax_error("'('")
    try:
        options = parse_property_list(cursor.all_tokens(), cursor.position, cursor.dialect)
    except TableOptionsError as error:
        raise cursor.error_at(str(error), error.start) from None
    cursor.take_brackets()
    return options.values


def _parse_query(cursor: Cursor, body: _Body) -> None:
    if not cursor.take("AS"):
        raise cursor.syntax_error("AS and a query, or one of each of USING, PARTITION BY and OPTIONS before it,")
    start = cursor.previous_end
    if not is_query_start(cursor):
        raise cursor.syntax_error("a query")
    change = find_data_change(cursor)
    if change is not None:
        raise cursor.error(
            f"{cursor.statement} requires a query, not a data change. Run {change.keyword} as a separate statement.",
            change,
        )
    body.query_span = (start, cursor.end)


def _expect_end(cursor: Cursor) -> None:
    if cursor.current is not None:
        raise cursor.syntax_error("the end")
