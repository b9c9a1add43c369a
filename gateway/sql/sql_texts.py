"""The SQL texts of a request.

Guarantee: a text of a request is divided into tokens at most once, however many functions read it. It is divided again
only if it contains double quotes, and the settings of the session give them another meaning than the default settings.

Not guaranteed: texts that follow the first ``MAX_CHARACTERS`` characters of a request can be divided again. Their
tokens are not kept, because a token needs about 150 bytes, which the memory budget of the request does not contain.
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
