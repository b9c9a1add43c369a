"""A search for words in the bytes of a request.

It spares most requests all further work.

Guarantee: a search keeps the event loop and the interpreter busy for at most a few hundred microseconds at a time,
however large the request is.
"""

import asyncio
from collections.abc import Iterable

from gateway.plan_decoding import INLINE_BYTES

_PIECE_BYTES = 256 * 1024


class WordSearch:
    """Searches for words in any letter case.

    Args:
        words: The words. Letter case counts for characters outside of ASCII. Words as bytes have no upper case letters.
    """

    def __init__(self, words: Iterable[str | bytes]) -> None:
        self._words = tuple(word if isinstance(word, bytes) else word.lower().encode() for word in words)
        self._overlap_bytes = max(map(len, self._words), default=1) - 1

    async def matches(self, data: bytes) -> bool:
        """Return whether the bytes contain any of the words, for large requests too.

        A large request is searched in a thread.
        """
        return await asyncio.to_thread(self.matches_now, data) if len(data) > INLINE_BYTES else self.matches_now(data)

    def matches_now(self, data: bytes) -> bool:
        """Return whether the bytes contain any of the words."""
        pieces = (piece.lower() for piece in self._split(data))
        return any(word in piece for piece in pieces for word in self._words)

    def _split(self, data: bytes) -> Iterable[bytes]:
        """Split the bytes into pieces that overlap by the length of a word."""
        if len(data) <= _PIECE_BYTES:
            return (data,)
        starts = range(0, len(data), _PIECE_BYTES)
        return (data[start : start + _PIECE_BYTES + self._overlap_bytes] for start in starts)
