"""Expressions of Spark Connect, as protocol messages."""

from pyspark.sql.connect.proto import expressions_pb2

Expression = expressions_pb2.Expression


def attribute(name: str) -> Expression:
    """Return a column. The name is written as in SQL."""
    return Expression(unresolved_attribute=Expression.UnresolvedAttribute(unparsed_identifier=name))


def call(function: str, *arguments: Expression) -> Expression:
    """Return the call of a function or an operator of Spark.

    The name is qualified, because a session can have temporary functions of the same name.
    """
    found = Expression()
    found.unresolved_function.function_name = f"system.builtin.`{function}`"
    found.unresolved_function.is_user_defined_function = True  # only then does Spark parse a qualified name
    found.unresolved_function.arguments.extend(arguments)
    return found


def alias(expression: Expression, name: str, metadata: str | None = None) -> Expression:
    """Return an expression with a name, and with metadata as JSON."""
    found = Expression()
    found.alias.expr.CopyFrom(expression)
    found.alias.name.append(name)
    if metadata is not None:
        found.alias.metadata = metadata
    return found


def int_literal(value: int) -> Expression:
    """Return a number of 32 bits."""
    return Expression(literal=Expression.Literal(integer=value))


def long_literal(value: int) -> Expression:
    """Return a number of 64 bits."""
    return Expression(literal=Expression.Literal(long=value))


def text_literal(value: str) -> Expression:
    """Return a text."""
    return Expression(literal=Expression.Literal(string=value))
