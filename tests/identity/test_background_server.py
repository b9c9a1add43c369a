"""Tests that a server of a test leaves no task behind that fails a later test."""

import asyncio

from tests.identity.background_server import BackgroundServer


class _Server(BackgroundServer):
    def __init__(self) -> None:
        self.ended: list[str] = []

    async def start(self) -> None:
        self._first = asyncio.create_task(self._serve("first"))
        await asyncio.sleep(0)

    async def stop(self) -> None:
        """Stop nothing, like a server whose connections are open."""

    async def _serve(self, name: str) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            if name == "first":
                self._second = asyncio.create_task(self._serve("second"))
                await asyncio.sleep(0)
            self.ended.append(name)


def test_tasks_have_ended_when_the_server_has() -> None:
    with _Server() as server:
        pass
    assert sorted(server.ended) == ["first", "second"]
