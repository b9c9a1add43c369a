"""The memory that responses occupy until clients read them.

Back-pressure is end to end: a response is read from the backend only if there is room, so a backend waits if clients do
not read.

Guarantees:

1. Above half of a limit, in total or of a principal, no response is read ahead, and the next response is read only when
   there is room again.
2. A response that would exceed a limit is discarded, and its stream ends with a retryable error. The client reattaches,
   and the backend sends the response again.
3. If there is no room, the connection of the client that has not read for the longest time is closed, which frees its
   memory. This affects only clients that have not read for 10 seconds. They reconnect and reattach.

Not guaranteed: gRPC keeps a copy of each message while it sends the message. The limits count each message once.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import structlog

from gateway.admission.accounts import Account, principal_of
from gateway.admission.connections import close_connection
from gateway.admission.limits import AdmissionLimits, LimitKind, LimitReports

_CHECK_SECONDS = 1.0
_STALLED_SECONDS = 10.0
_MAX_CLOSED_AT_ONCE = 16

log = structlog.get_logger(__name__)


class ResponseFlow:
    """The responses of one call that are in memory.

    Args:
        flows: The responses of all calls.
        context: The context of the call.

    Attributes:
        account: The account of the principal. None while it is not known.
        sends_since: The monotonic time at which the current response was sent.
    """

    __slots__ = ("_context", "_flows", "_held_bytes", "_is_closed", "account", "sends_since")

    def __init__(self, flows: "ResponseFlows", context: Any) -> None:
        self._flows = flows
        self._context = context
        self.account: Account | None = None
        self.sends_since = 0.0
        self._held_bytes = 0
        self._is_closed = False

    @property
    def peer(self) -> str:
        """The network address of the client, as gRPC reports it."""
        return str(self._context.peer())

    @property
    def may_read_ahead(self) -> bool:
        """Whether a response may be read while the client has not received the previous one."""
        return self._flows.has_room(self.account)

    async def read(self, read: Callable[[], Awaitable[Any]]) -> Any:
        """Read a response from the backend as soon as there is room, and count it until it is sent.

        Raises:
            GatewayError: If the response would exceed a limit.
        """
        if not self._flows.has_room(self.account):
            await self._flows.wait_for_room(self.account)
        message = await read()
        if isinstance(message, bytes) and not self._is_closed:
            self._flows.add(len(message), self.account)
            self._held_bytes += len(message)
        return message

    async def send(self, message: bytes) -> None:
        """Send a response to the client, and stop counting it.

        Raises:
            GatewayError: If the response was not counted before, and would exceed a limit.
        """
        self.begin(message)
        try:
            await self._context.write(message)
        finally:
            self._flows.sending.pop(self, None)
            self._release(len(message))

    def begin(self, message: bytes) -> None:
        """Count a response that gRPC sends from now on, until :meth:`close`.

        Raises:
            GatewayError: If the response was not counted before, and would exceed a limit.
        """
        if len(message) > self._held_bytes:
            self._flows.add(len(message), self.account)
            self._held_bytes += len(message)
        self.sends_since = time.monotonic()
        self._flows.sending[self] = None

    def close(self) -> None:
        """Stop counting all responses of this call."""
        self._is_closed = True
        self._flows.sending.pop(self, None)
        self._release(self._held_bytes)

    def _release(self, size: int) -> None:
        size = min(size, self._held_bytes)
        if size:
            self._held_bytes -= size
            self._flows.remove(size, self.account)


class ResponseFlows:
    """The responses of all calls that are in memory.

    Args:
        limits: The limits.
        total: The account of all principals together.
        reports: Reports exceeded limits.
        close_connection: A function that closes the connection of a client, given its network address.

    Attributes:
        sending: The calls that are sending a response, the oldest first.
    """

    def __init__(
        self,
        limits: AdmissionLimits,
        total: Account,
        reports: LimitReports,
        close_connection: Callable[[str], bool] = close_connection,
    ) -> None:
        self._limits = limits
        self._total = total
        self._reports = reports
        self._close_connection = close_connection
        self.sending: dict[ResponseFlow, None] = {}
        self._waiting: dict[asyncio.Future[None], Account | None] = {}
        self._timer: asyncio.TimerHandle | None = None

    def has_room(self, account: Account | None) -> bool:
        """Return whether less than half of each limit is in use."""
        return self._find_full(account, share=2) is None

    async def wait_for_room(self, account: Account | None) -> None:
        """Wait until less than half of each limit is in use."""
        while not self.has_room(account):
            self._watch()
            room = asyncio.get_running_loop().create_future()
            self._waiting[room] = account
            try:
                await room
            finally:
                self._waiting.pop(room, None)

    def add(self, size: int, account: Account | None) -> None:
        """Count a response that has arrived from the backend.

        A single response is always within the limits.

        Raises:
            GatewayError: If the response exceeds a limit. It is not counted.
        """
        full = self._find_full(account, size=size)
        if full is not None:
            self._watch()
            raise self._reports.exceeded(full, principal_of(account))
        self._total.response_bytes += size
        if account is not None:
            account.response_bytes += size

    def remove(self, size: int, account: Account | None) -> None:
        """Stop counting a response."""
        self._total.response_bytes -= size
        if account is not None:
            account.response_bytes -= size
        for room, waiting in list(self._waiting.items()):
            if self.has_room(waiting) and not room.done():
                room.set_result(None)

    def _find_full(self, account: Account | None, *, size: int = 0, share: int = 1) -> LimitKind | None:
        """Return the limit that further bytes would exceed.

        Args:
            account: The account of the principal.
            size: The number of further bytes.
            share: The number by which the limits are divided.
        """
        limits = self._limits
        principal_limit = limits.max_principal_response_bytes_in_flight // share
        if account is not None and 0 < account.response_bytes > principal_limit - size:
            return LimitKind.PRINCIPAL_RESPONSE_BYTES
        if 0 < self._total.response_bytes > limits.max_response_bytes_in_flight // share - size:
            return LimitKind.RESPONSE_BYTES
        return None

    def _watch(self) -> None:
        """Check periodically for clients that do not read, until there is room again."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_CHECK_SECONDS, self._check)

    def _check(self) -> None:
        """Close the connections of clients that do not read, if their responses fill a limit."""
        self._timer = None
        if all(self.has_room(flow.account) for flow in self.sending):
            return
        self._watch()
        stalled_before = time.monotonic() - _STALLED_SECONDS
        stalled = [flow for flow in self.sending if flow.sends_since < stalled_before]
        blocking = [flow for flow in stalled if not self.has_room(flow.account)]
        blocking.sort(key=lambda flow: (-_used(flow.account), flow.sends_since))
        for peer in list(dict.fromkeys(flow.peer for flow in blocking))[:_MAX_CLOSED_AT_ONCE]:
            is_closed = self._close_connection(peer)
            log.warning("stalled_connection_closed", peer=peer, is_closed=is_closed)


def _used(account: Account | None) -> int:
    return 0 if account is None else account.response_bytes
