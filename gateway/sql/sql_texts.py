"""The SQL texts of a request.

Guarantee: a text of a request is divided into tokens at most once, however many functions read it. It is divided again
only if it contains double quotes, and the settings of the session give them another meaning than the default settings.

Not guaranteed: this applies to the first texts of a request, with at most ``MAX_CHARACTERS`` characters together. A
token needs a hundred times the memory of a short word, and the memory budget of a request does not contain it.
"""

from gateway.sql.lexer import SqlText

MAX_CHARACTERS = 128 * 1024


class SqlTexts:
    """The SQL texts of a request."""

    def __init__(self) -> None:
        self._texts: dict[str, SqlText] = {}
        self._characters = 0

    def of(self, text: str) -> str:
        """Return a text of the request, with the tokens that were read of it if it is one of those that are kept."""
        known = self._texts.get(text)
        if known is not None or self._characters + len(text) > MAX_CHARACTERS:
            return text if known is None else known
        new = self._texts[text] = text if isinstance(text, SqlText) else SqlText(text)
        self._characters += len(text)
        return new

    def forget(self) -> None:
        """Free the memory of the tokens. A statement can run for hours after its texts were read."""
        self._texts.clear()
        self._characters = 0
