"""Names as Spark SQL writes them."""

from collections.abc import Sequence

from gateway.sql.lexer import Token, tokenize


def quote_name(name: str) -> str:
    """An identifier in backquotes, whatever it holds."""
    return "`" + name.replace("`", "``") + "`"


def qualify_with_session(name: str) -> str:
    """What means a temporary view of the session, whatever else is called so."""
    return f"system.session.{quote_name(name)}"


def parse_name(text: str, *, double_quoted_identifiers: bool = False) -> tuple[str, ...]:
    """The parts of a name that is a whole text; none if it is no name."""
    return read_name(tokenize(text, double_quoted_identifiers=double_quoted_identifiers))


def read_name(found: Sequence[Token]) -> tuple[str, ...]:
    """The parts of a name that tokens are, joined by dots; none if they are no name."""
    names, dots = found[::2], found[1::2]
    is_name = len(names) == len(dots) + 1 and all(token.is_name for token in names)
    return tuple(token.value for token in names) if is_name and all(dot.is_symbol(".") for dot in dots) else ()
