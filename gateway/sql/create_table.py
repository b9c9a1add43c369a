"""``CREATE TEMPORARY TABLE``, and ``CREATE TABLE`` of a name that may be in a workspace.

Guarantees:

1. ``CREATE TEMPORARY TABLE`` without a query is Spark's own, and not recognised, if it names another format than those
   of ``DEFINABLE_FORMATS``, a path, or no columns: Spark makes a view of such a source.
2. A query span holds a query that changes nothing.

Source: seed 001, 5.1.1; Spark: SqlBaseParser.g4 (createTable, createTableClauses),
``SparkSqlAstBuilder.visitCreateTable``.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from gateway.sql.cursor import Cursor, strings_value
from gateway.sql.lexer import Token
from gateway.sql.read_only_query import find_data_change, is_query_start
from gateway.sql.statement_error import StatementError
from gateway.sql.statements import CreateTable, CreateTemporaryTable, Name, Span, TableName
from gateway.sql.table_options import TableOptionsError, parse_property_list

DEFINABLE_FORMATS = frozenset({"parquet", "json", "csv", "orc"})
_PATH_OPTIONS = frozenset({"path", "location"})
_WAYS_OUT = {
    "COMMENT": "leave it out",
    "TBLPROPERTIES": "leave it out; options of the format go into OPTIONS",
    "LOCATION": "leave it out, for Lodge chooses where a temporary table is stored",
    "CLUSTER": "use PARTITION BY",
    "CLUSTERED": "use PARTITION BY",
    "SKEWED": "use PARTITION BY",
    "ROW": "use USING with a format, and OPTIONS",
    "STORED": "use USING with a format",
    "DEFAULT": "leave it out",
}
_SECOND_WORDS = {
    "CLUSTER": "BY",
    "CLUSTERED": "BY",
    "SKEWED": "BY",
    "ROW": "FORMAT",
    "STORED": "AS",
    "DEFAULT": "COLLATION",
}


@dataclass(slots=True)
class _Body:
    """What comes after the name, as far as it was read."""

    columns: tuple[str, ...] | None = None
    storage_format: str | None = None
    partition_columns: tuple[str, ...] = ()
    options: dict[str, str] = field(default_factory=dict)
    query_span: Span | None = None
    definition_span: Span | None = None
    like: TableName | None = None


def parse_create_temporary_table(cursor: Cursor) -> CreateTemporaryTable | None:
    """What comes after ``CREATE TEMPORARY TABLE``.

    Raises: StatementError.
    """
    cursor.statement = "CREATE TEMPORARY TABLE"
    if_not_exists = cursor.take("IF", "NOT", "EXISTS")
    name = cursor.maybe_name()
    if _is_sparks_own(cursor):
        return None
    if name is None:
        raise cursor.expected("a name")
    body = _Body()
    _read_body(cursor, body)
    return CreateTemporaryTable(
        name=name,
        if_not_exists=if_not_exists,
        columns=body.columns,
        storage_format=body.storage_format,
        partition_columns=body.partition_columns,
        options=body.options,
        query_span=body.query_span,
        definition_span=body.definition_span,
        like=body.like,
    )


def parse_create_table(cursor: Cursor, *, has_other_clauses: bool) -> CreateTable | None:
    """What comes after ``CREATE TABLE``; None if the name has one part.

    Args:
        cursor: After ``TABLE``.
        has_other_clauses: Whether there were other words before it.
    """
    if_not_exists = cursor.take("IF", "NOT", "EXISTS")
    name = cursor.maybe_name()
    if name is None or (isinstance(name, Name) and len(name.parts) == 1):
        return None
    body = _Body()
    try:
        _read_body(cursor, body)
    except StatementError:
        has_other_clauses = True
    return CreateTable(
        name=name,
        if_not_exists=if_not_exists,
        columns=body.columns,
        storage_format=body.storage_format,
        partition_columns=body.partition_columns,
        options=body.options,
        query_span=body.query_span,
        has_other_clauses=has_other_clauses or body.query_span is None,
    )


def _is_sparks_own(cursor: Cursor) -> bool:
    """Guarantee 1; the cursor is after the name."""
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
    """Whether a key among these is a path; the first of them is the opening bracket."""
    keys = (key for before, key in pairwise(options) if before.is_symbol("(") or before.is_symbol(","))
    texts = (key.value if key.is_name else strings_value([key]) for key in keys)
    return any(text is not None and text.lower() in _PATH_OPTIONS for text in texts)


def _read_body(cursor: Cursor, body: _Body) -> None:
    """Reads what comes after the name.

    Raises: StatementError, with what was read before in the body.
    """
    if cursor.take("LIKE"):
        body.like = cursor.name()
        body.storage_format = _format(cursor) if cursor.take("USING") else None
        _take_end(cursor)
        return
    opening = cursor.current
    if cursor.is_symbol("("):
        _read_columns(cursor, body)
    _read_clauses(cursor, body)
    if body.definition_span is not None:
        if cursor.take("AS"):
            raise cursor.error(
                f"In {cursor.statement}, columns have no types before AS: the query gives them.", opening
            )
        _take_end(cursor)
    elif cursor.current is None and body.columns is not None:
        raise cursor.error(f"In {cursor.statement}, columns need types, or AS and a query after them.", opening)
    else:
        _read_query(cursor, body)


def _read_columns(cursor: Cursor, body: _Body) -> None:
    opening = cursor.current
    if opening is None or not _has_types(cursor):
        body.columns = cursor.column_list()
        return
    if not cursor.take_brackets():
        cursor.position = len(cursor.all_tokens())
        raise cursor.expected("')'")
    body.definition_span = (opening.end, cursor.previous_end - 1)


def _has_types(cursor: Cursor) -> bool:
    """Whether one of the names in the list that opens here has something like a type after it."""
    at, has_types = cursor.position, False
    cursor.position += 1
    while not has_types and cursor.maybe_part() is not None:
        current = cursor.current
        has_types = current is not None and current.is_name
        if not has_types and not cursor.take_symbol(","):
            break
    cursor.position = at
    return has_types


def _read_clauses(cursor: Cursor, body: _Body) -> None:
    seen = set[str]()
    while clause := _clause(cursor):
        if clause in seen:
            raise cursor.error(f"{clause} stands twice in {cursor.statement}.")
        seen.add(clause)
        if clause in _WAYS_OUT:
            words = f"{clause} {_SECOND_WORDS.get(clause, '')}".rstrip()
            raise cursor.error(f"{words} is not supported in {cursor.statement}: {_WAYS_OUT[clause]}.")
        if clause == "USING":
            cursor.take("USING")
            body.storage_format = _format(cursor)
        elif clause == "PARTITION BY":
            cursor.position += 2
            body.partition_columns = cursor.column_list()
        else:
            cursor.take("OPTIONS")
            body.options = _options(cursor)


def _clause(cursor: Cursor) -> str:
    """The clause that begins here; empty if none does."""
    word = cursor.keyword()
    if word in ("PARTITION", "PARTITIONED") and cursor.keyword(1) == "BY":
        return "PARTITION BY"
    return word if word in ("USING", "OPTIONS") or word in _WAYS_OUT else ""


def _format(cursor: Cursor) -> str:
    parts = [cursor.part()]
    while cursor.take_symbol("."):
        parts.append(cursor.part())
    return ".".join(parts)


def _options(cursor: Cursor) -> dict[str, str]:
    if not cursor.is_symbol("("):
        raise cursor.expected("'('")
    try:
        read = parse_property_list(cursor.all_tokens(), cursor.position)
    except TableOptionsError as error:
        raise cursor.error_at(str(error), error.start) from None
    cursor.take_brackets()
    return read.values


def _read_query(cursor: Cursor, body: _Body) -> None:
    if not cursor.take("AS"):
        raise cursor.expected("AS and a query, or one each of USING, PARTITION BY and OPTIONS before it,")
    start = cursor.previous_end
    if not is_query_start(cursor):
        raise cursor.expected("a query")
    change = find_data_change(cursor)
    if change is not None:
        raise cursor.error(f"{cursor.statement} takes a query, not a change of data.", change)
    body.query_span = (start, cursor.end)


def _take_end(cursor: Cursor) -> None:
    if cursor.current is not None:
        raise cursor.expected("the end")
