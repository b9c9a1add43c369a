"""Reads and writes the names of tables and columns in Spark SQL.

Source: [spark-sql-grammar multipartIdentifier].
"""

from collections.abc import Sequence

from gateway.errors import invalid_request
from gateway.sql.lexer import DEFAULT_DIALECT, Dialect, Token, tokenize

MAX_NAME_CHARACTERS = 8192
"""The maximum length of the name of a table in a plan. It is parsed on the event loop."""


def quote_name(name: str) -> str:
    """Return a name as a quoted identifier, in backquotes."""
    return "`" + name.replace("`", "``") + "`"


def qualify_with_session(name: str) -> str:
    """Return a qualified name that can refer only to a temporary view of the session."""
    return f"system.session.{quote_name(name)}"


def parse_name(text: str, dialect: Dialect = DEFAULT_DIALECT) -> tuple[str, ...]:
    """Return the parts of a name. Empty if the text is not a name."""
    return read_name(tokenize(text, dialect))


def parse_plan_name(text: str) -> tuple[str, ...]:
    """Return the parts of a name in a plan. Empty if the text is not a name.

    Raises:
        GatewayError: If the name has too many characters.
    """
    if len(text) > MAX_NAME_CHARACTERS:
        raise invalid_request(f"a name of a table has more than {MAX_NAME_CHARACTERS:,} characters")
    return parse_name(text)


def read_name(tokens: Sequence[Token]) -> tuple[str, ...]:
    """Return the parts of the name that the tokens form. Empty if they are not a name."""
    names, dots = tokens[::2], tokens[1::2]
    is_name = len(names) == len(dots) + 1 and all(token.is_name for token in names)
    return tuple(token.value for token in names) if is_name and all(dot.is_symbol(".") for dot in dots) else ()
