"""Admits RPCs within the limits of the gateway.

Each RPC is admitted before its first message is read into memory. An admitted RPC keeps an account of what it uses, and
returns everything when it ends.

Guarantees:

1. The number of open RPCs and running statements never exceeds the limits, in total and for each principal.
2. An RPC over a limit fails with ``RESOURCE_EXHAUSTED`` and a delay after which PySpark and JVM clients retry.
3. An RPC above the rate of its principal waits for the next window first. Therefore, a client that does not wait
   between its requests is slowed down instead of refused, as long as the principal has no more than its limit of open
   RPCs.
4. The replies to failed logins and to refused RPCs are delayed, so that a client that repeats them at once does not
   occupy the gateway.

Not guaranteed: replicas do not know about each other. A principal that uses several replicas has the limits of each.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from types import TracebackType
from typing import Any

from gateway.admission.accounts import Account, Accounts
from gateway.admission.connections import host_of
from gateway.admission.limits import AdmissionLimits, LimitKind, LimitReports
from gateway.admission.rates import per_minute, per_second
from gateway.admission.request_bytes import RequestBytes
from gateway.admission.responses import ResponseFlow, ResponseFlows
from gateway.admission.session_quota import SessionQuota
from workspace.identifiers import Principal

_REFUSAL_DELAY_SECONDS = 1.0
_MAX_DELAYED_REPLIES = 1_000


class Admission:
    """The limits of a replica, and what its clients use at present.

    Args:
        limits: The limits.
        count_exceeded: A function that counts exceeded limits in a metric.

    Attributes:
        accounts: What each principal uses.
        sessions: The quota of sessions.
    """

    def __init__(
        self,
        limits: AdmissionLimits | None = None,
        count_exceeded: Callable[[LimitKind], None] = lambda kind: None,
    ) -> None:
        self._limits = limits = limits or AdmissionLimits()
        self._reports = LimitReports(limits, count_exceeded)
        self.accounts = Accounts()
        self.sessions = SessionQuota(limits, self._reports)
        self._responses = ResponseFlows(limits, self.accounts.total, self._reports)
        self._requests = RequestBytes(limits, self.accounts.total, self._reports)
        self._request_rate = per_second(limits.principal_requests_per_second)
        self._failed_logins = per_minute(limits.failed_logins_per_minute)
        self._delayed = 0

    def admit(self, principal: Principal | None, peer: str = "") -> "AdmittedRequest":
        """Admit an RPC for the duration of an ``async with`` block.

        Args:
            principal: The authenticated principal. None if no authentication method is configured. In this case, call
                :meth:`AdmittedRequest.claim` as soon as the principal is known.
            peer: The network address of the client, as gRPC reports it.

        Raises:
            GatewayError: If the RPC exceeds a limit. The block is not entered.
        """
        return AdmittedRequest(self, principal, peer)

    async def delay_failed_login(self, peer: str) -> None:
        """Wait before the reply to a failed login, if too many logins from its network address have failed.

        Args:
            peer: The network address of the client, as gRPC reports it.
        """
        if not self._failed_logins.hit(host_of(peer)):
            self._reports.report(LimitKind.FAILED_LOGINS)
            await self._delay()

    def has_failed_logins(self, peer: str) -> bool:
        """Return whether too many logins from a network address have failed in this minute."""
        return not self._failed_logins.has_room(host_of(peer))

    async def _open_request(self) -> None:
        total = self.accounts.total
        if total.requests >= self._limits.max_requests_in_flight:
            await self._refuse(LimitKind.REQUESTS)
        total.requests += 1

    async def _open_principal_request(self, principal: Principal) -> Account:
        account = self.accounts.find_or_add(principal)
        if account.requests >= self._limits.max_principal_requests_in_flight:
            await self._refuse(LimitKind.PRINCIPAL_REQUESTS, principal)
        account.requests += 1
        try:
            if not self._request_rate.hit(principal):
                await self._wait_for_rate(principal)
        except BaseException:
            self._close_principal_request(account)
            raise
        return account

    def _close_principal_request(self, account: Account) -> None:
        account.requests -= 1
        self.accounts.discard_if_unused(account)

    async def _wait_for_rate(self, principal: Principal) -> None:
        """Wait for the next window of the rate limit.

        Raises:
            GatewayError: If the next window has no room either.
        """
        await asyncio.sleep(self._request_rate.seconds_left(principal))
        if not self._request_rate.hit(principal):
            raise self._reports.exceeded(LimitKind.PRINCIPAL_REQUEST_RATE, principal)
        self._reports.report(LimitKind.PRINCIPAL_REQUEST_RATE, principal)

    def _start_statement(self, account: Account | None) -> None:
        total, limits = self.accounts.total, self._limits
        if account is not None and account.statements >= limits.max_principal_statements:
            raise self._reports.exceeded(LimitKind.PRINCIPAL_STATEMENTS, account.principal)
        if total.statements >= limits.max_statements:
            raise self._reports.exceeded(LimitKind.STATEMENTS)
        self._count_statement(account)

    def _count_statement(self, account: Account | None) -> None:
        self.accounts.total.statements += 1
        if account is not None:
            account.statements += 1

    def _end_statement(self, account: Account | None) -> None:
        self.accounts.total.statements -= 1
        if account is not None:
            account.statements -= 1
            self.accounts.discard_if_unused(account)

    async def _refuse(self, kind: LimitKind, principal: Principal | None = None) -> None:
        """Refuse an RPC after a delay.

        Raises:
            GatewayError: Always.
        """
        await self._delay()
        raise self._reports.exceeded(kind, principal)

    async def _delay(self) -> None:
        """Wait, unless too many replies already wait."""
        if self._delayed >= _MAX_DELAYED_REPLIES:
            return
        self._delayed += 1
        try:
            await asyncio.sleep(_REFUSAL_DELAY_SECONDS)
        finally:
            self._delayed -= 1


class AdmittedRequest:
    """An admitted RPC. It is the result of ``async with admission.admit(...)``.

    Attributes:
        responses: The responses of this RPC that are in memory.
    """

    __slots__ = ("_account", "_admission", "_principal", "_request_bytes", "_statements", "responses")

    def __init__(self, admission: Admission, principal: Principal | None, peer: str) -> None:
        self._admission = admission
        self._principal = principal
        self._account: Account | None = None
        self._request_bytes = 0
        self._statements = 0
        self.responses = ResponseFlow(admission._responses, peer)

    async def __aenter__(self) -> "AdmittedRequest":
        await self._admission._open_request()
        if self._principal is not None:
            try:
                await self.claim(self._principal)
            except BaseException:
                self._admission.accounts.total.requests -= 1
                raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        admission, account = self._admission, self._account
        self.responses.close()
        self.forwarded()
        for _ in range(self._statements):
            admission._end_statement(account)
        if account is not None:
            admission._close_principal_request(account)
        admission.accounts.total.requests -= 1

    async def claim(self, principal: Principal) -> None:
        """Count the RPC for a principal. Does nothing if the principal was already known.

        Raises:
            GatewayError: If the principal exceeds a limit.
        """
        if self._account is not None:
            return
        account = await self._admission._open_principal_request(principal)
        self._account = self.responses.account = account
        account.request_bytes += self._request_bytes

    async def read(self, receive: Callable[[], Awaitable[Any]]) -> Any:
        """Receive a message from the client, such as ``await admitted.read(context.read)``.

        The message counts until the next call, or until :meth:`forwarded`.

        Raises:
            GatewayError: If the client is too slow, or the messages in memory exceed a limit.
        """
        self.forwarded()
        requests = self._admission._requests
        message = await requests.read(receive, self._account)
        if isinstance(message, bytes):
            requests.add(len(message), self._account)
            self._request_bytes = len(message)
        return message

    def forwarded(self) -> None:
        """Stop counting the last message, because it is no longer in memory."""
        if self._request_bytes:
            self._admission._requests.remove(self._request_bytes, self._account)
            self._request_bytes = 0

    async def messages(self, first: bytes, receive: Callable[[], Awaitable[Any]]) -> AsyncIterator[bytes]:
        """Yield the first message, and then all further messages of a client stream.

        Each message counts until the next one is requested.

        Args:
            first: The message that was already received with :meth:`read`.
            receive: A function that receives the next message. It returns ``grpc.aio.EOF`` at the end of the stream.

        Raises:
            GatewayError: See :meth:`read`.
        """
        message = first
        while isinstance(message, bytes):
            yield message
            message = await self.read(receive)

    def start_statement(self) -> None:
        """Count a statement that starts. It ends together with the RPC.

        Raises:
            GatewayError: If too many statements run.
        """
        self._admission._start_statement(self._account)
        self._statements += 1

    def follow_statement(self) -> None:
        """Count a statement that already runs. It is never refused."""
        self._admission._count_statement(self._account)
        self._statements += 1

    def keep_statement(self, task: "asyncio.Future[Any]") -> None:
        """Count a statement until a task ends, even if the RPC ends earlier.

        Args:
            task: The task that executes the statement.
        """
        admission, account = self._admission, self._account
        admission._count_statement(account)
        task.add_done_callback(lambda _: admission._end_statement(account))
