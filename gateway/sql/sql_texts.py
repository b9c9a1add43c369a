"""The SQL texts of a request.

Guarantee: a text of a request is divided into tokens at most once, however many functions read it. It is divided again
only if it contains double quotes, and the settings of the session give them another meaning than the default settings.

Not guaranteed: this does not apply to the ninth and later texts of a request, so that the tokens of all texts need not
much more memory than those of the longest one.
"""

from gateway.sql.lexer import SqlText

_MAX_TEXTS = 8


class SqlTexts:
    """The SQL texts of a request."""

    def __init__(self) -> None:
        self._texts: dict[str, SqlText] = {}

    def of(self, text: str) -> SqlText:
        """Return a text of the request, with the tokens that were read of it."""
        known = self._texts.get(text)
        if known is not None:
            return known
        new = text if isinstance(text, SqlText) else SqlText(text)
        if len(self._texts) < _MAX_TEXTS:
            self._texts[new] = new
        return new

    def forget(self) -> None:
        """Free the memory of the tokens. A statement can run for hours after its texts were read."""
        self._texts.clear()
