"""The source of an authentication method whose content changes."""

import asyncio

from gateway.authentication.source import Source, SourceError
from tests.gateway.authentication.conftest import eventually


async def test_refused_content_is_parsed_once() -> None:
    contents = [b"1", b"x", b"x", b"1", b"x", b"2"]
    parsed: list[bytes] = []

    def parse(content: bytes) -> int:
        parsed.append(content)
        try:
            return int(content)
        except ValueError:
            raise SourceError("The content is not a number.") from None

    source = Source("s", lambda: contents.pop(0), parse, period_seconds=1, timeout_seconds=10)
    failing = []
    while contents:
        await source.refresh(0)
        failing.append(source.is_failing)
    assert failing == [True, True, False, True, False]
    assert parsed == [b"1", b"x", b"x", b"2"]
    assert source.value == 2


async def test_source_can_be_watched_again_after_an_unexpected_error() -> None:
    content = b"1"

    def parse(content: bytes) -> int:
        if content == b"x":
            raise OverflowError
        return int(content)

    source = Source("s", lambda: content, parse, period_seconds=0.01, timeout_seconds=10)
    content = b"x"
    try:
        await source.watch(lambda: None)
    except OverflowError:
        assert source.is_failing
    content = b"2"
    watching = asyncio.create_task(source.watch(lambda: None))

    async def is_current() -> bool:
        return source.value == 2 and not source.is_failing

    await eventually(is_current, "the new content is used")
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
