"""Whether words stand in the bytes of a request: the cheap look that spares most requests any other.

Guarantee: however large the request, no look keeps the event loop, nor the interpreter, for more than a few hundred
microseconds at a time.
"""

import asyncio
from collections.abc import Iterable

from gateway.plan_decoding import INLINE_BYTES

_PIECE_BYTES = 256 * 1024


class WordSearch:
    """Looks for words in any letter case.

    Args:
        words: What is looked for; letter case counts for what is not ASCII. Bytes are without upper case letters.
    """

    def __init__(self, words: Iterable[str | bytes]) -> None:
        self._words = tuple(word if isinstance(word, bytes) else word.lower().encode() for word in words)
        self._overlap_bytes = max(map(len, self._words), default=1) - 1

    async def finds_any(self, data: bytes) -> bool:
        """Whether any of the words stands in the bytes."""
        return await asyncio.to_thread(self.is_in, data) if len(data) > INLINE_BYTES else self.is_in(data)

    def is_in(self, data: bytes) -> bool:
        """The same, at once."""
        return any(self._is_in_piece(piece.lower()) for piece in self._pieces(data))

    def _pieces(self, data: bytes) -> Iterable[bytes]:
        if len(data) <= _PIECE_BYTES:
            return (data,)
        starts = range(0, len(data), _PIECE_BYTES)
        return (data[start : start + _PIECE_BYTES + self._overlap_bytes] for start in starts)

    def _is_in_piece(self, lowered: bytes) -> bool:
        return any(word in lowered for word in self._words)
