"""A file or URL whose content changes while the gateway runs.

Guarantees:

1. The content is read in a thread, with a limit of time. The event loop never waits for a file or a server.
2. If the new content cannot be read or is not valid, the previous value stays in use, and the failure is logged. With a
   maximum age, the value is used only until this age, counted from the last successful read.
3. If the first read of a gateway that replaces another one fails, the gateway uses what the other one used last.
4. At most one read of a source runs at a time. A caller that is cancelled does not cancel the read of others.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Generic, TypeVar

import structlog

from gateway.authentication.source_memory import KeptSource, SourceMemory
from gateway.blocking_work.pools import Pool
from gateway.errors import GatewayError, authentication_unavailable

_SECONDS_BETWEEN_REPORTS = 60.0
_RETRY_SECONDS = 15.0
_MAX_HUNG_READS = 2
_CLOCK_STEP_SECONDS = 0.05

_Value = TypeVar("_Value")
log = structlog.get_logger(__name__)


class SourceError(Exception):
    """Raised if a source cannot be read, or if its content is not valid.

    The message names the source, the problem and what to do, but never contains the content.
    """


def _ignore_change() -> None:
    return


class Source(Generic[_Value]):
    """The last valid value of a file or URL.

    Args:
        name: The path or URL, for messages.
        read: Reads the content. It may block, and raises SourceError.
        parse: Converts the content into a value. It raises SourceError.
        period_seconds: How often :meth:`watch` reads the source.
        timeout_seconds: How long one read may take.
        max_age_seconds: How long the value is used without a successful read. None means without a limit.
        memory: Keeps the content for the gateway that replaces this one. None if there is none.

    Raises:
        SourceError: If the first read fails. The constructor blocks until it has read the source.
    """

    def __init__(
        self,
        name: str,
        read: Callable[[], bytes],
        parse: Callable[[bytes], _Value],
        *,
        period_seconds: float,
        timeout_seconds: float,
        max_age_seconds: float | None = None,
        memory: SourceMemory | None = None,
    ) -> None:
        self._name = name
        self._read = read
        self._parse = parse
        self._period_seconds = period_seconds
        self._max_age_seconds = max_age_seconds
        self._pool = Pool(
            "authentication-source",
            1,
            refusal=lambda: authentication_unavailable("the source did not respond in time"),
            timeout_seconds=timeout_seconds,
            max_abandoned=_MAX_HUNG_READS,
        )
        self._on_change: Callable[[], None] = _ignore_change
        self._refreshing: asyncio.Task[None] | None = None
        self._refused: tuple[bytes, str] | None = None
        self._memory = memory or SourceMemory()
        self._reported_at: float | None = None
        self._is_closed = False
        self._attempted_at = time.monotonic()
        self._content, self._value, self._valid_at = self._read_first()

    def _read_first(self) -> tuple[bytes, _Value, float]:
        """Return the content, its value, and when it was read.

        Raises:
            SourceError: If the content cannot be read or is not valid, and no gateway before this one has read it.
        """
        try:
            content = self._read()
            value = self._parse(content)
        except SourceError as error:
            kept = self._memory.of_former_gateway(self._name)
            if kept is None:
                raise
            self._report(str(error))
            value = self._parse(kept.content)
        else:
            kept = KeptSource(content, self._attempted_at)
        self._memory.keep(self._name, kept)
        return kept.content, value, kept.valid_at

    @property
    def value(self) -> _Value | None:
        """The last valid value, or None if it has exceeded its maximum age."""
        return None if self._is_too_old else self._value

    @property
    def is_failing(self) -> bool:
        """Whether the last read failed."""
        return self._reported_at is not None

    async def watch(self, on_change: Callable[[], None]) -> None:
        """Read the source periodically until the task is cancelled.

        Args:
            on_change: A function to call after the value has changed or has exceeded its maximum age.
        """
        self._on_change = on_change
        self._is_closed = False
        is_expired = False
        try:
            while True:
                await asyncio.sleep(self._pause_seconds())
                await self._refresh()
                if self._is_too_old and not is_expired:
                    log.error("authentication_source_expired", source=self._name, max_age=self._max_age_seconds)
                    on_change()
                is_expired = self._is_too_old
        except asyncio.CancelledError:  # after another error, the caller may watch again
            self._is_closed = True
            if self._refreshing is not None:
                await asyncio.gather(self._refreshing, return_exceptions=True)
            await self._pool.close()
            raise

    async def refresh(self, at_most_every_seconds: float) -> None:
        """Read the source now, unless the previous read started less than the given time ago."""
        if self._is_closed:
            return
        if self._refreshing is not None or time.monotonic() - self._attempted_at >= at_most_every_seconds:
            await self._refresh()

    @property
    def _is_too_old(self) -> bool:
        return self._max_age_seconds is not None and time.monotonic() - self._valid_at > self._max_age_seconds

    def _pause_seconds(self) -> float:
        """Return the time until the next read, or until the value exceeds its maximum age."""
        period = min(self._period_seconds, _RETRY_SECONDS) if self.is_failing else self._period_seconds
        if self._max_age_seconds is None or self._is_too_old:
            return period
        remaining = self._valid_at + self._max_age_seconds - time.monotonic()
        return min(period, max(remaining, 0.0) + _CLOCK_STEP_SECONDS)

    async def _refresh(self) -> None:
        if self._refreshing is None:
            self._refreshing = asyncio.create_task(self._read_again())
        await asyncio.shield(self._refreshing)

    async def _read_again(self) -> None:
        self._attempted_at = started = time.monotonic()
        try:
            content, value = await self._pool.run_or_abandon(self._load, self._content, started)
        except (SourceError, GatewayError) as error:
            self._report(str(error) if isinstance(error, SourceError) else _silence(self._name))
            return
        except Exception as error:
            self._report(f"[{self._name}] cannot be used because of an unexpected error: {type(error).__name__}.")
            raise
        finally:
            self._refreshing = None
        self._valid_at, self._reported_at = started, None
        if value is not None:
            self._content, self._value = content, value
            log.info("authentication_source_changed", source=self._name)
            self._on_change()

    def _load(self, known: bytes, started: float) -> tuple[bytes, _Value | None]:
        """Return the content, and its value if the content has changed. Keep the content.

        Content that was refused is not parsed again, because this can take seconds of processor time.
        """
        content = self._read()
        if content == known:
            self._refused = None
            if self._max_age_seconds is not None:
                self._memory.keep(self._name, KeptSource(content, started))
            return content, None
        if self._refused is not None and self._refused[0] == content:
            raise SourceError(self._refused[1])
        try:
            value = self._parse(content)
        except SourceError as error:
            self._refused = content, str(error)
            raise
        self._memory.keep(self._name, KeptSource(content, started))
        return content, value

    def _report(self, reason: str) -> None:
        now = time.monotonic()
        if self._reported_at is None or now - self._reported_at >= _SECONDS_BETWEEN_REPORTS:
            self._reported_at = now
            log.error("authentication_source_failed", source=self._name, reason=reason)


def _silence(name: str) -> str:
    return f"The source [{name}] did not respond in time. Check the server, or the file system that contains the file."
