"""Names of tables and columns as Spark SQL writes them.

Source: [spark-sql-grammar multipartIdentifier].
"""

from collections.abc import Sequence

from gateway.sql.lexer import DEFAULT_DIALECT, Dialect, Token, tokenize


def quote_name(name: str) -> str:
    """Return a name as an identifier in backquotes."""
    return "`" + name.replace("`", "``") + "`"


def qualify_with_session(name: str) -> str:
    """Return a name that Spark finds among the temporary views of the session only."""
    return f"system.session.{quote_name(name)}"


def parse_name(text: str, dialect: Dialect = DEFAULT_DIALECT) -> tuple[str, ...]:
    """Return the parts of a name; empty if the text is something else."""
    return read_name(tokenize(text, dialect))


def read_name(tokens: Sequence[Token]) -> tuple[str, ...]:
    """Return the parts of a name that tokens form; empty for other tokens."""
    names, dots = tokens[::2], tokens[1::2]
    is_name = len(names) == len(dots) + 1 and all(token.is_name for token in names)
    return tuple(token.value for token in names) if is_name and all(dot.is_symbol(".") for dot in dots) else ()
