"""The source of an authentication method whose content changes."""

from gateway.authentication.source import Source, SourceError


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
