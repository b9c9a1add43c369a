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

from gateway.blocking_work.pools import Pool
from gateway.errors import GatewayError, authentication_unavailable
from gateway.reloading.last_valid_value import LastValidValue, Reading, SourceError
from gateway.reloading.source_memory import KeptSource, SourceMemory

_SECONDS_BETWEEN_REPORTS = 60.0
_RETRY_SECONDS = 15.0
_MAX_HUNG_READS = 2
_CLOCK_STEP_SECONDS = 0.05

_Value = TypeVar("_Value")
log = structlog.get_logger(__name__)


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
        self._memory = memory or SourceMemory()
        self._is_closed = False
        self._attempted_at = time.monotonic()
        self._last_valid = LastValidValue(
            name, read, parse, self._report, self._memory, repeat_seconds=_SECONDS_BETWEEN_REPORTS
        )

    @property
    def value(self) -> _Value | None:
        """The last valid value, or None if it has exceeded its maximum age."""
        return None if self._is_too_old else self._last_valid.current.value

    @property
    def is_failing(self) -> bool:
        """Whether the last read failed."""
        return bool(self._last_valid.problem)

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
        return (
            self._max_age_seconds is not None
            and time.monotonic() - self._last_valid.current.read_at > self._max_age_seconds
        )

    def _pause_seconds(self) -> float:
        """Return the time until the next read, or until the value exceeds its maximum age."""
        period = min(self._period_seconds, _RETRY_SECONDS) if self.is_failing else self._period_seconds
        if self._max_age_seconds is None or self._is_too_old:
            return period
        remaining = self._last_valid.current.read_at + self._max_age_seconds - time.monotonic()
        return min(period, max(remaining, 0.0) + _CLOCK_STEP_SECONDS)

    async def _refresh(self) -> None:
        if self._refreshing is None:
            self._refreshing = asyncio.create_task(self._read_again())
        await asyncio.shield(self._refreshing)

    async def _read_again(self) -> None:
        self._attempted_at = time.monotonic()
        try:
            reading = await self._pool.run_or_abandon(self._load)
        except (SourceError, GatewayError) as error:
            self._last_valid.fail(str(error) if isinstance(error, SourceError) else _silence(self._name))
            return
        except Exception as error:
            problem = f"[{self._name}] cannot be used because of an unexpected error: {type(error).__name__}."
            self._last_valid.fail(problem)
            raise
        finally:
            self._refreshing = None
        if self._last_valid.use(reading):
            log.info("authentication_source_changed", source=self._name)
            self._on_change()

    def _load(self) -> Reading[bytes, _Value]:
        """Read the source. If the value has a maximum age, keep its new age too."""
        reading = self._last_valid.read()
        if self._max_age_seconds is not None:
            self._memory.keep(self._name, KeptSource(reading.content, reading.read_at))
        return reading

    def _report(self, reason: str, _value: _Value) -> None:
        log.error("authentication_source_failed", source=self._name, reason=reason)


def _silence(name: str) -> str:
    return f"The source [{name}] did not respond in time. Check the server, or the file system that contains the file."
