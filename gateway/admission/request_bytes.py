"""The memory that requests occupy.

gRPC reads a message completely before Lodge learns its size. A message that arrives quickly is counted when it has
arrived. A message that takes long may already occupy the largest permitted size, so this size is counted.

Guarantees:

1. The counted bytes never exceed the limits, in total and for each principal.
2. If slow messages exceed a limit, the oldest slow message of the principal that uses the most memory is refused.
   Therefore, one principal cannot keep others from sending.
3. A message that takes longer than the request timeout is refused.
4. A stall of the event loop does not make messages slow: their age is counted in checks, not in seconds.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from gateway.admission.accounts import Account, principal_of
from gateway.admission.limits import AdmissionLimits, LimitKind, LimitReports
from gateway.errors import GatewayError

_CHECK_SECONDS = 0.25
_SLOW_CHECKS = 5  # the first check may follow at once, so a slow message takes at least 1 s


class _Read:
    """A message that a client is sending."""

    __slots__ = ("account", "checks", "refusal", "reserved_bytes", "task")

    def __init__(self, account: Account | None) -> None:
        self.account = account
        self.task = asyncio.current_task()
        self.checks = 0
        self.reserved_bytes = 0
        self.refusal: GatewayError | None = None

    def refuse(self, error: GatewayError) -> None:
        self.refusal = error
        if self.task is not None:
            self.task.cancel()


class RequestBytes:
    """The memory that requests occupy, and the messages that clients are sending.

    Args:
        limits: The limits.
        total: The account of all principals together.
        reports: Reports exceeded limits.
    """

    def __init__(self, limits: AdmissionLimits, total: Account, reports: LimitReports) -> None:
        self._limits = limits
        self._total = total
        self._reports = reports
        self._max_checks = limits.request_timeout / _CHECK_SECONDS
        self._reads: dict[_Read, None] = {}
        self._timer: asyncio.TimerHandle | None = None

    async def read(self, receive: Callable[[], Awaitable[Any]], account: Account | None) -> Any:
        """Receive a message. The caller must add its size.

        Raises:
            GatewayError: If the message takes too long, or slow messages exceed the limit.
        """
        read = _Read(account)
        self._reads[read] = None
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_CHECK_SECONDS, self._check)
        try:
            return await receive()
        except asyncio.CancelledError:
            if read.refusal is None or (read.task is not None and read.task.uncancel()):
                raise
            raise read.refusal from None
        finally:
            del self._reads[read]
            self._return(read)

    def add(self, size: int, account: Account | None) -> None:
        """Count a message that has arrived.

        Raises:
            GatewayError: If the messages in memory exceed a limit. The message is not counted.
        """
        kind = self._find_exceeded(size, account)
        if kind is not None:
            raise self._reports.exceeded(kind, principal_of(account))
        self._total.request_bytes += size
        if account is not None:
            account.request_bytes += size

    def remove(self, size: int, account: Account | None) -> None:
        """Stop counting a message."""
        self._total.request_bytes -= size
        if account is not None:
            account.request_bytes -= size

    def _find_exceeded(self, size: int, account: Account | None) -> LimitKind | None:
        """Return the limit that further bytes would exceed. A single message is always within the limits."""
        limits = self._limits
        if account is not None and 0 < account.request_bytes > limits.max_principal_request_bytes_in_flight - size:
            return LimitKind.PRINCIPAL_REQUEST_BYTES
        if 0 < self._total.request_bytes > limits.max_request_bytes_in_flight - size:
            return LimitKind.REQUEST_BYTES
        return None

    def _check(self) -> None:
        """Count the slow messages, and refuse those that exceed a limit."""
        self._timer = None
        for read in list(self._reads):
            read.checks += 1
            if read.refusal is None and read.checks > self._max_checks:
                self._refuse(read, LimitKind.REQUEST_SECONDS)
            elif read.refusal is None and read.checks >= _SLOW_CHECKS and not read.reserved_bytes:
                self._reserve(read)
        if self._reads:
            self._timer = asyncio.get_running_loop().call_later(_CHECK_SECONDS, self._check)

    def _reserve(self, read: _Read) -> None:
        """Count the largest permitted size for a slow message."""
        size = self._limits.max_message_bytes
        while (kind := self._find_exceeded(size, read.account)) is not None:
            victim = self._find_victim(kind, read)
            self._refuse(victim, kind)
            if victim is read:
                return
        self.add(size, read.account)
        read.reserved_bytes = size

    def _find_victim(self, kind: LimitKind, read: _Read) -> _Read:
        """Return the oldest slow message of the principal that uses the most memory."""
        slow = [each for each in self._reads if each.reserved_bytes]
        if kind is LimitKind.PRINCIPAL_REQUEST_BYTES:
            slow = [each for each in slow if each.account is read.account]
        return max(slow, key=lambda each: (_used(each.account), each.checks), default=read)

    def _refuse(self, read: _Read, kind: LimitKind) -> None:
        self._return(read)
        read.refuse(self._reports.exceeded(kind, principal_of(read.account)))

    def _return(self, read: _Read) -> None:
        if read.reserved_bytes:
            self.remove(read.reserved_bytes, read.account)
            read.reserved_bytes = 0


def _used(account: Account | None) -> int:
    return 0 if account is None else account.request_bytes
