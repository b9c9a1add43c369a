"""Expressions of Spark Connect, as protocol messages."""

from pyspark.sql.connect.proto import expressions_pb2

Expression = expressions_pb2.Expression


def attribute(name: str) -> Expression:
    """Return a column. The name is written as in SQL."""
    found = Expression()
    found.unresolved_attribute.unparsed_identifier = name
    return found


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
    found = Expression()
    found.literal.integer = value
    return found


def long_literal(value: int) -> Expression:
    """Return a number of 64 bits."""
    found = Expression()
    found.literal.long = value
    return found


def text_literal(value: str) -> Expression:
    """Return a text."""
    found = Expression()
    found.literal.string = value
    return found
