"""Searches for words in the bytes of a request.

The search is a fast first check. Most requests do not contain any of the words and need no further processing.

Guarantee: a search occupies the event loop and the interpreter for at most a few hundred microseconds at a time,
regardless of the size of the request.
"""

from collections.abc import Iterable

from gateway.blocking_work.request_pools import RequestPools

_PIECE_BYTES = 256 * 1024


class WordSearch:
    """Searches for words, ignoring case.

    Args:
        words: The words. Characters outside ASCII are compared case-sensitively. Words of type ``bytes`` must not
            contain upper-case letters.
    """

    def __init__(self, words: Iterable[str | bytes]) -> None:
        self._words = tuple(word if isinstance(word, bytes) else word.lower().encode() for word in words)
        self._overlap_bytes = max(map(len, self._words), default=1) - 1

    async def matches(self, data: bytes, pools: RequestPools) -> bool:
        """Return whether the bytes contain any of the words.

        Args:
            data: The bytes.
            pools: The threads for large requests.
        """
        return await pools.decode(len(data), self.matches_now, data)

    def matches_now(self, data: bytes) -> bool:
        """Return whether the bytes contain any of the words. Always search in this thread."""
        pieces = (piece.lower() for piece in self._split(data))
        return any(word in piece for piece in pieces for word in self._words)

    def _split(self, data: bytes) -> Iterable[bytes]:
        """Split the bytes into pieces. Each piece overlaps the next by one word length."""
        if len(data) <= _PIECE_BYTES:
            return (data,)
        starts = range(0, len(data), _PIECE_BYTES)
        return (data[start : start + _PIECE_BYTES + self._overlap_bytes] for start in starts)
