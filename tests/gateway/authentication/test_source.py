"""The source of an authentication method whose content changes."""

import asyncio
import time

from gateway.authentication.source import Source
from gateway.reloading.last_valid_value import SourceError
from gateway.reloading.source_memory import KeptSource, SourceMemory
from tests.gateway.authentication.conftest import eventually
from tests.gateway.reloading.memory import Memory


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


def test_guarantee_3_value_of_the_former_gateway_expires_too() -> None:
    kept = Memory()
    now = time.monotonic()

    def fail() -> bytes:
        raise SourceError("gone")

    for read_at, value in ((now, "kept"), (now - 100, None)):
        kept.write({"file": KeptSource(b"kept", read_at)})
        memory = SourceMemory(kept)
        source = Source(
            "file", fail, bytes.decode, period_seconds=1, timeout_seconds=1, max_age_seconds=60, memory=memory
        )
        assert (source.value, source.is_failing) == (value, True)


async def test_guarantee_3_age_of_unchanged_content_is_kept_only_if_it_has_a_maximum() -> None:
    for max_age_seconds, is_kept in ((60.0, True), (None, False)):
        kept = Memory()
        source = Source(
            "file",
            lambda: b"1",
            int,
            period_seconds=1,
            timeout_seconds=10,
            max_age_seconds=max_age_seconds,
            memory=SourceMemory(kept),
        )
        before = kept.read()["file"].valid_at
        await source.refresh(0)
        assert (kept.read()["file"].valid_at > before) == is_kept
