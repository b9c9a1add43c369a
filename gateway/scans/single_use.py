"""Finds the scans that only one place of one statement uses.

Spark pushes the filters of a query down to Lodge's data source, and keeps them with the relation of the scan. If a plan
uses the relation in two places, both get the filters of one of them. If a later statement uses it without filters, it
gets those of the earlier statement. Therefore filters may only be pushed down to scans of this module.

Guarantees:

1. A scan is found only if its statement is executed once, and if Spark does not copy it while it plans the statement.
   Spark copies the outer side of correlated subqueries, also of those in SQL functions, and common table expressions
   that have several uses. So the statement must consist of relations, expressions, keywords and functions that this
   module knows, its queries must be in places of tables, and each of its common table expressions has one use.
2. A scan that is found gets a value that no other statement has. Then no later statement finds it in Spark's cache of
   plans.

Source: [spark-data-source], ``PythonScanBuilder``, ``SessionHolder.usePlanCache`` and ``DecorrelateInnerQuery``.
"""

from collections.abc import Iterator, Sequence
from itertools import dropwhile

from google.protobuf.message import Message
from pyspark.sql.connect.proto import base_pb2, expressions_pb2, relations_pb2

from engine.scan_source import FORMAT
from gateway.scans.single_queries import has_single_queries
from gateway.sql.lexer import VARIABLE_START, Dialect, Token, TokenKind, tokenize

Relation = relations_pb2.Relation

_WRITES = ("write_operation", "write_operation_v2")
_OF_ONE_INPUT = frozenset(
    [
        "deduplicate",
        "drop",
        "filter",
        "hint",
        "html_string",
        "limit",
        "offset",
        "project",
        "repartition",
        "repartition_by_expression",
        "show_string",
        "sort",
        "subquery_alias",
        "tail",
        "to_df",
        "to_schema",
        "with_columns",
        "with_columns_renamed",
    ]
)
_EXPRESSIONS = frozenset(
    [
        "alias",
        "cast",
        "expression_string",
        "literal",
        "sort_order",
        "unresolved_attribute",
        "unresolved_extract_value",
        "unresolved_function",
        "unresolved_regex",
        "unresolved_star",
        "window",
    ]
)
_OPERATORS = frozenset(["!", "!=", "%", "*", "+", "-", "/", "<", "<=", "<=>", "=", "==", ">", ">="])
_FUNCTIONS = frozenset(
    [
        "abs",
        "and",
        "avg",
        "between",
        "ceil",
        "coalesce",
        "concat",
        "contains",
        "count",
        "date",
        "day",
        "endswith",
        "floor",
        "ifnull",
        "ilike",
        "in",
        "isnan",
        "isnotnull",
        "isnull",
        "length",
        "like",
        "lower",
        "max",
        "min",
        "month",
        "not",
        "nullif",
        "nvl",
        "or",
        "rlike",
        "round",
        "startswith",
        "substr",
        "substring",
        "sum",
        "timestamp",
        "timestamp_ntz",
        "trim",
        "upper",
        "year",
    ]
)
_BEFORE_BRACKETS = _FUNCTIONS | frozenset(
    [
        "as",
        "by",
        "case",
        "cast",
        "char",
        "cube",
        "decimal",
        "distinct",
        "else",
        "from",
        "group",
        "having",
        "join",
        "on",
        "over",
        "rollup",
        "select",
        "sets",
        "then",
        "using",
        "varchar",
        "when",
        "where",
    ]
)
_KEYWORDS_OF_COPIES = frozenset(
    ["BEGIN", "CALL", "EXECUTE", "LATERAL", "MAP", "RECURSIVE", "REDUCE", "TABLE", "VALUES"]
)
_EXPLAIN_WORDS = frozenset({"EXPLAIN", "LOGICAL", "FORMATTED", "EXTENDED", "CODEGEN", "COST"})

_MAX_BYTES = 64 * 1024
"""The maximum size of a message, because it is visited on the event loop."""


_MAX_COMPARED_CHARACTERS = 1_000_000
"""How many characters of a text are compared with aliases. This happens on the event loop. Scans of larger statements
count as read several times.
"""


def is_executed_once(message: Message) -> bool:
    """Return whether a message is a query or a write of a DataFrame.

    A view or a SQL command can use its scans later, or several times.
    """
    if not isinstance(message, base_pb2.Plan):
        return False
    return message.WhichOneof("op_type") == "root" or message.command.WhichOneof("command_type") in _WRITES


def find_single_uses(message: Message, dialect: Dialect) -> Sequence[Relation]:
    """Return the scans that have only one use.

    Args:
        message: A plan, or the relation of a statement that Lodge executes, whose names are resolved.
        dialect: The dialect of the SQL texts in the message.
    """
    if isinstance(message, Relation):
        root = message
    elif isinstance(message, base_pb2.Plan) and is_executed_once(message):
        command = message.command
        root = (
            message.root
            if message.HasField("root")
            else getattr(command, str(command.WhichOneof("command_type"))).input
        )
    else:
        return []
    is_plain = message.ByteSize() <= _MAX_BYTES and _has_plain_expressions(message, dialect)
    return list(_find(root, dialect)) if is_plain else []


def _find(relation: Relation, dialect: Dialect) -> Iterator[Relation]:
    kind = relation.WhichOneof("rel_type")
    if kind == "read":
        if relation.read.data_source.format == FORMAT:
            yield relation
    elif kind in _OF_ONE_INPUT:
        yield from _find(getattr(relation, kind).input, dialect)
    elif kind == "aggregate" and not relation.aggregate.HasField("pivot"):
        yield from _find(relation.aggregate.input, dialect)
    elif kind == "join":
        yield from _find(relation.join.left, dialect)
        yield from _find(relation.join.right, dialect)
    elif kind == "set_op":
        yield from _find(relation.set_op.left_input, dialect)
        yield from _find(relation.set_op.right_input, dialect)
    elif kind == "with_relations" and relation.with_relations.root.HasField("sql"):
        yield from _find_in_text(relation.with_relations, dialect)


def _find_in_text(statement: relations_pb2.WithRelations, dialect: Dialect) -> Iterator[Relation]:
    """Return the scans that a SQL text reads once, by their aliases."""
    text = statement.root.sql.query
    if VARIABLE_START in text or len(statement.references) * len(text) > _MAX_COMPARED_CHARACTERS:
        return
    tokens = _skip_explain(tokenize(text, dialect))
    if not (has_single_queries(tokens) and _is_plain(tokens)):
        return
    for reference in statement.references:
        alias = reference.subquery_alias.alias.lower()
        is_scan = reference.subquery_alias.input.read.data_source.format == FORMAT
        if is_scan and alias and sum(alias in token.value.lower() for token in tokens) == 1:
            yield reference.subquery_alias.input


def _skip_explain(tokens: Sequence[Token]) -> Sequence[Token]:
    """Return the tokens after ``EXPLAIN`` and its mode.

    Return all tokens if the statement is not ``EXPLAIN``.
    """
    if not tokens or tokens[0].keyword != "EXPLAIN":
        return tokens
    return list(dropwhile(lambda token: token.keyword in _EXPLAIN_WORDS, tokens))


def _has_plain_expressions(message: Message, dialect: Dialect) -> bool:
    """Return whether all expressions in a message are known."""
    if isinstance(message, expressions_pb2.Expression):
        kind = message.WhichOneof("expr_type")
        if kind == "unresolved_function":
            is_known = message.unresolved_function.function_name.lower() in _FUNCTIONS | _OPERATORS
        elif kind == "expression_string":
            text = message.expression_string.expression
            tokens = tokenize(text, dialect)
            has_query = any(token.keyword in ("SELECT", "FROM", "WITH") for token in tokens)
            is_known = VARIABLE_START not in text and not has_query and _is_plain(tokens)
        else:
            is_known = kind in _EXPRESSIONS
        if not is_known:
            return False
    return all(_has_plain_expressions(part, dialect) for part in _find_parts(message))


def _find_parts(message: Message) -> Iterator[Message]:
    """Return the messages in a message, except those in maps."""
    for field, value in message.ListFields():
        if field.message_type is None or field.message_type.GetOptions().map_entry:
            continue
        yield from value if field.is_repeated else [value]


def _is_plain(tokens: Sequence[Token]) -> bool:
    """Return whether a text calls only known functions."""
    keywords = (token.keyword for token in tokens)
    return _KEYWORDS_OF_COPIES.isdisjoint(keywords) and all(_is_plain_at(tokens, index) for index in range(len(tokens)))


def _is_plain_at(tokens: Sequence[Token], index: int) -> bool:
    """Return whether a token neither begins a pipe, nor the arguments of an unknown function."""
    token, before = tokens[index], tokens[index - 1] if index else None
    if token.kind is TokenKind.UNKNOWN or (before is not None and before.is_symbol("|") and token.is_symbol(">")):
        return False
    if not token.is_symbol("(") or before is None or before.kind is TokenKind.SYMBOL:
        return True
    is_qualified = index > 1 and tokens[index - 2].is_symbol(".")
    return not is_qualified and before.kind is TokenKind.WORD and before.value.lower() in _BEFORE_BRACKETS
