"""The source of an authentication method whose content changes."""

import asyncio
import pickle
from typing import Any

import pytest

from gateway.authentication.source import Source, SourceError
from gateway.authentication.source_memory import KeptSource, SourceMemory
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


class Memory:
    """Memory for one value, which is copied like that of a real gateway."""

    def __init__(self) -> None:
        self._content = pickle.dumps(None)

    def read(self) -> Any:
        return pickle.loads(self._content)  # noqa: S301 - written by this test

    def write(self, value: Any) -> None:
        self._content = pickle.dumps(value)


def test_gateway_continues_with_what_the_former_one_used() -> None:
    kept = Memory()

    def open_source(content: str, name: str = "file") -> Source[str]:
        def read() -> bytes:
            if not content:
                raise SourceError("gone")
            return content.encode()

        def parse(content: bytes) -> str:
            if content == b"broken":
                raise SourceError("broken")
            return content.decode()

        memory = SourceMemory(kept)
        return Source(name, read, parse, period_seconds=1, timeout_seconds=1, max_age_seconds=60, memory=memory)

    with pytest.raises(SourceError, match="gone"):
        open_source("")
    assert not open_source("first").is_failing
    for content in ("", "broken", ""):
        again = open_source(content)
        assert (again.value, again.is_failing) == ("first", True)
    assert open_source("second").value == "second"
    with pytest.raises(SourceError, match="gone"):
        open_source("", "another file")
    sources = kept.read()
    kept.write({name: KeptSource(source.content, source.valid_at - 100) for name, source in sources.items()})
    assert open_source("").value is None, "it has exceeded its maximum age"


def test_gateway_in_use_does_not_return_to_what_the_former_one_used() -> None:
    kept = Memory()
    kept.write({"file": KeptSource(b"old", 0.0)})
    memory = SourceMemory(kept)
    memory.forget_former_gateway()

    def fail() -> bytes:
        raise SourceError("gone")

    with pytest.raises(SourceError, match="gone"):
        Source("file", fail, bytes.decode, period_seconds=1, timeout_seconds=1, memory=memory)


def test_older_content_does_not_replace_a_later_one() -> None:
    """A read that hangs can end after a later one."""
    kept = Memory()
    memory = SourceMemory(kept)
    memory.keep("file", KeptSource(b"late", 2.0))
    memory.keep("file", KeptSource(b"early", 1.0))
    assert kept.read() == {"file": KeptSource(b"late", 2.0)}


def test_gateway_that_dies_during_its_start_keeps_the_other_sources() -> None:
    kept = Memory()
    first = SourceMemory(kept)
    for name in ("a", "b", "removed"):
        first.keep(name, KeptSource(name.encode(), 1.0))
    SourceMemory(kept).keep("a", KeptSource(b"new", 2.0))
    third = SourceMemory(kept)
    assert third.of_former_gateway("b") == KeptSource(b"b", 1.0)
    for name in ("a", "b"):
        third.keep(name, KeptSource(b"new", 3.0))
    third.forget_former_gateway()
    third.keep("a", KeptSource(b"new", 4.0))
    assert sorted(kept.read()) == ["a", "b"]
