"""One session as this replica serves it."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager

from gateway.backends import Backend
from gateway.requests import SessionKey
from workspace.records import SessionUuid, record_name


class Session:
    """A session as this replica sees it.

    Attributes:
        key: Who the session is for.
        uuid: The name of its session location.
        backend: Where its statements run.
        lock: Held while a table's name gets another meaning.
    """

    def __init__(self, key: SessionKey, session_uuid: SessionUuid, backend: Backend) -> None:
        self.key = key
        self.uuid = session_uuid
        self.backend = backend
        self.record_name = record_name(key.principal, key.client_session_id)
        self.last_active_seconds = time.monotonic()
        self.lock = asyncio.Lock()
        self._under_way = 0

    @property
    def is_busy(self) -> bool:
        return self._under_way > 0

    @contextmanager
    def busy(self) -> Iterator[None]:
        """While a request of the session is under way."""
        self._under_way += 1
        try:
            yield
        finally:
            self._under_way -= 1
            self.last_active_seconds = time.monotonic()
