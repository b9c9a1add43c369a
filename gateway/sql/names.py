"""Names as Spark SQL writes them."""


def quoted(name: str) -> str:
    """An identifier in backquotes, whatever it holds."""
    return "`" + name.replace("`", "``") + "`"
