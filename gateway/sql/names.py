"""Names as Spark SQL writes them."""

from collections.abc import Sequence

from gateway.sql.lexer import Token, tokens


def quoted(name: str) -> str:
    """An identifier in backquotes, whatever it holds."""
    return "`" + name.replace("`", "``") + "`"


def session_name(name: str) -> str:
    """What means a temporary view of the session, whatever else is called so."""
    return f"system.session.{quoted(name)}"


def parsed(text: str, *, double_quoted_identifiers: bool = False) -> tuple[str, ...]:
    """The parts of a name that is a whole text; none if it is no name."""
    return name_of(tokens(text, double_quoted_identifiers=double_quoted_identifiers))


def name_of(found: Sequence[Token]) -> tuple[str, ...]:
    """The parts of a name that tokens are, joined by dots; none if they are no name."""
    names, dots = found[::2], found[1::2]
    is_name = len(names) == len(dots) + 1 and all(token.is_name for token in names)
    return tuple(token.value for token in names) if is_name and all(dot.is_symbol(".") for dot in dots) else ()
