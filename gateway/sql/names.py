"""Names as Spark SQL writes them."""

from collections.abc import Sequence

from gateway.sql.lexer import tokens


def quoted(name: str) -> str:
    """An identifier in backquotes, whatever it holds."""
    return "`" + name.replace("`", "``") + "`"


def parsed(text: str) -> Sequence[str]:
    """The parts of a name that is a whole text; none if it is no name."""
    parts: list[str] = []
    for index, token in enumerate(tokens(text)):
        if index % 2 == 0 and token.is_name:
            parts.append(token.value)
        elif index % 2 == 0 or not token.is_symbol("."):
            return ()
    return parts if text.strip() and not text.rstrip().endswith(".") else ()
