"""Lets Spark compute the text of ``EXECUTE IMMEDIATE`` and the name in ``IDENTIFIER(…)`` if Lodge cannot.

Lodge must know such a text, because it could name a workspace or change a temporary table. The expression is replaced
by the text, and the statement is treated as if the client had sent the text as a literal.

Guarantees:

1. The text that Lodge checks is the text that Spark executes, even if a session variable changes concurrently.
2. Spark evaluates only the expression. An expression with a subquery is not evaluated.

Source: [spark-sql-grammar executeImmediate], [spark-sql-grammar identifierReference].
"""

import re
from collections.abc import Sequence

from pyspark.sql.connect.proto import base_pb2, relations_pb2
from pyspark.sql.types import StringType

from gateway.plans.sql_relations import (
    count_positional,
    find_sql,
    keep_positional_parameters,
    read_parameters,
    remove_positional_parameters,
)
from gateway.sql.execute_immediate import ExecuteImmediate, find_execute_immediate
from gateway.sql.identifier_clauses import EvaluatedNames
from gateway.sql.lexer import Dialect, skip_blank, tokenize
from gateway.sql.name_syntax import parse_name
from gateway.sql.parameters import StringEvaluator
from gateway.sql.statements import Span
from gateway.sql.string_literals import write_string
from gateway.statements.session_view import SessionView
from gateway.statements.statement import Statement

_EXECUTE = re.compile("execute", re.IGNORECASE)
_QUERY_WORDS = frozenset({"SELECT", "WITH", "FROM", "TABLE", "VALUES", "JOIN"})
_MAX_BYTES = 60_000
_COLUMN = "text"


async def evaluate_immediate(statement: Statement, view: SessionView) -> bool:
    """Replace the expression in an ``EXECUTE IMMEDIATE`` statement by its value, if only Spark can compute it.

    Args:
        statement: The statement. Its plan is changed in place.
        view: The session of the client.

    Returns:
        Whether the statement was changed.

    Raises:
        BackendError: If Spark cannot evaluate the expression.
        GatewayError: If the text has too many tokens, or the backend fails.
    """
    sql = statement.sql
    if sql is None or not _EXECUTE.match(sql.query, skip_blank(sql.query, 0)):
        return False
    dialect = (await view.settings()).dialect
    immediate = await statement.run(_find_unknown, statement.texts.of(sql.query), sql, dialect)
    if immediate is None:
        return False
    span = (immediate.start, immediate.end)
    value = await _evaluate(statement, view, span)
    literal = None if value is None else write_string(value, dialect)
    if literal is None:
        return False
    text = statement.texts.of(sql.query)
    remove_positional_parameters(sql, await statement.run(_find_positions, text, sql, dialect, span))
    statement.replace_text(f"{text[: immediate.start]}{literal}{text[immediate.end :]}")
    return True


async def evaluate_names(statement: Statement, view: SessionView, names: EvaluatedNames) -> EvaluatedNames:
    """Return the names in ``IDENTIFIER(…)`` clauses, of which Spark computes those that Lodge cannot compute.

    Args:
        statement: The statement.
        view: The session of the client.
        names: The names that Lodge can compute. The others have no parts.

    Raises:
        BackendError: If Spark cannot evaluate an expression.
        GatewayError: If the text has too many tokens, or the backend fails.
    """
    found = dict(names)
    for clause, parts in names.items():
        is_whole = clause.argument_start > clause.start  # otherwise, it is a longer name with such a clause in it
        if not parts and is_whole:
            span = (clause.argument_start, clause.argument_end)
            text = await _evaluate(statement, view, span)
            found[clause] = () if text is None else parse_name(text, (await view.settings()).dialect)
    return found


async def _evaluate(statement: Statement, view: SessionView, span: Span) -> str | None:
    """Return the value of an expression in a SQL text. None if it is NULL, too long or no text, or has a subquery."""
    dialect = (await view.settings()).dialect
    relation = statement.sql_relation
    sql = find_sql(relation)
    text = statement.texts.of("" if sql is None else sql.query)
    expression = await statement.run(_build_query, text, relation, span, dialect)
    if expression is None:
        return None
    if not isinstance((await view.backend.analyze_schema(expression)).fields[0].dataType, StringType):
        return None
    plan = base_pb2.Plan()
    plan.root.project.input.CopyFrom(expression)
    limited = f"CASE WHEN octet_length({_COLUMN}) <= {_MAX_BYTES} THEN {_COLUMN} END AS {_COLUMN}"
    plan.root.project.expressions.add().expression_string.expression = limited
    (value,) = await view.backend.read_texts(plan, [_COLUMN])
    return value


def _find_unknown(text: str, sql: relations_pb2.SQL, dialect: Dialect) -> ExecuteImmediate | None:
    """Return the statement if the text consists of it, and only Spark can compute its text."""
    tokens = tokenize(text, dialect)
    found = find_execute_immediate(tokens, read_parameters(sql), dialect)
    if len(found) != 1 or found[0].text is not None or found[0].start == found[0].end:
        return None
    is_first = tokens[0].keyword == "EXECUTE" and tokens[2].start == found[0].start
    return found[0] if is_first else None


def _build_query(
    text: str, relation: relations_pb2.Relation, span: Span, dialect: Dialect
) -> relations_pb2.Relation | None:
    """Return a query of an expression, which has the same position in its text. None if it has a subquery."""
    start, end = span
    inner = (token for token in tokenize(text, dialect) if start <= token.start < end)
    if any(token.keyword in _QUERY_WORDS for token in inner):
        return None
    query = relations_pb2.Relation()
    query.CopyFrom(relation)
    sql = find_sql(query)
    if sql is None:
        raise TypeError("The relation is not SQL.")
    keep_positional_parameters(sql, _find_positions(text, sql, dialect, span))
    sql.query = f"{'SELECT'.ljust(start - 1)}({text[start:end]}\n) AS {_COLUMN}"
    return query


def _find_positions(text: str, sql: relations_pb2.SQL, dialect: Dialect, span: Span) -> Sequence[int]:
    """Return the ordinals of the positional parameters of a text that are in a span."""
    if not count_positional(sql):
        return ()
    return StringEvaluator(tokenize(text, dialect), read_parameters(sql), dialect).find_positions(*span)
