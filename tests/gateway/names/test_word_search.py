"""The search for words in the bytes of a request."""

import pytest

from gateway.blocking_work.request_pools import RequestPools
from gateway.names.word_search import WordSearch

PIECE = 256 * 1024


@pytest.mark.parametrize("text", ["dfs.tmp", "DFS", "x Drop y"])
def test_word_is_found_in_any_letter_case(text):
    assert WordSearch(["dfs", "drop"]).matches_now(text.encode())


def test_absent_word_is_not_found():
    assert not WordSearch(["dfs", "drop"]).matches_now(b"df s dro" * 100_000)


@pytest.mark.parametrize("offset", [*range(PIECE - 8, PIECE + 3), 2 * PIECE - 3, 3 * PIECE - 4])
def test_word_is_found_between_pieces(offset):
    data = bytearray(3 * PIECE)
    data[offset : offset + 4] = b"Drop"
    assert WordSearch(["x", "drop"]).matches_now(bytes(data))


class OnlyInPieces(bytes):
    def lower(self):
        pytest.fail("the search must not convert the whole request at once")


async def test_large_request_is_searched_in_pieces():
    assert await WordSearch(["dfs", "drop"]).matches(OnlyInPieces(3 * PIECE * b"x" + b"DROP"), RequestPools())
    assert not await WordSearch(["dfs", "drop"]).matches(OnlyInPieces(10 * PIECE), RequestPools())
