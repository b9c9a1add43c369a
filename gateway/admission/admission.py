"""Admits calls within the limits of the gateway.

Each call is admitted before its first message is read into memory. The resources of an admitted call count for the
account of its principal until the call ends.

Guarantees:

1. The number of open calls and running statements never exceeds the limits, in total and for each principal.
2. A call over a limit fails with ``RESOURCE_EXHAUSTED`` and a delay after which PySpark and JVM clients retry.
3. A call above the rate of its principal waits for the next window first. Therefore, a client that does not wait
   between its requests is slowed down instead of refused, as long as its principal does not have too many open calls.
4. The replies to failed logins, and to calls above the limits of open calls, are delayed. Therefore, a client that
   repeats them at once does not occupy the gateway.
5. Logins from network addresses with too many failed logins wait before their credentials are verified, and only two of
   them are verified at the same time. Clients whose credentials were accepted in the last hour do not wait.
6. Principals take turns at beginning calls, so many calls of one principal do not delay those of others
   (:mod:`gateway.admission.turns`).

Not guaranteed: replicas do not know about each other. A principal that uses several replicas has the limits of each.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Set
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any

import grpc
from grpc import aio

from gateway.admission.accounts import Account, Accounts
from gateway.admission.connections import host_of
from gateway.admission.limits import AdmissionLimits, LimitKind, LimitReports
from gateway.admission.rates import per_minute, per_second
from gateway.admission.request_bytes import RequestBytes
from gateway.admission.responses import ResponseFlow, ResponseFlows
from gateway.admission.session_quota import SessionQuota
from gateway.admission.turns import Turns
from gateway.errors import GatewayError
from workspace.identifiers import Principal

Context = Any
"""``grpc.aio.ServicerContext``, for which grpc does not provide type annotations."""

_REFUSAL_DELAY_SECONDS = 1.0
_MAX_DELAYED_REPLIES = 1_000
_MAX_DOUBTFUL_LOGINS = 64
_MAX_RUNNING_DOUBTFUL_LOGINS = 2


class Admission:
    """The limits of a replica, and the resources that its clients currently use.

    Args:
        limits: The limits.
        count_limit: A function that counts a reached limit in a metric.
        count_call: A function that counts a call that has ended in a metric, with its method and status code.

    Attributes:
        accounts: The resources that each principal uses.
        sessions: The quota of sessions.
    """

    def __init__(
        self,
        limits: AdmissionLimits | None = None,
        count_limit: Callable[[LimitKind], None] = lambda kind: None,
        count_call: Callable[[str, str], None] = lambda method, code: None,
    ) -> None:
        self._limits = limits = limits or AdmissionLimits()
        self._reports = LimitReports(limits, count_limit)
        self.accounts = Accounts()
        self.sessions = SessionQuota(limits, self._reports)
        self._responses = ResponseFlows(limits, self.accounts.total, self._reports)
        self._requests = RequestBytes(limits, self.accounts.total, self._reports)
        self._request_rate = per_second(limits.principal_requests_per_second)
        self._failed_logins = per_minute(limits.failed_logins_per_minute)
        self._turns = Turns()
        self._count_call = count_call
        self._delayed = 0
        self._logins: Counter[str] = Counter()
        self._doubtful_logins = 0
        self._doubtful_login_slots = asyncio.Semaphore(_MAX_RUNNING_DOUBTFUL_LOGINS)
        self._open_calls: set[Context] = set()

    @property
    def busy_peers(self) -> Set[str]:
        """The network addresses of clients with open calls, as gRPC reports them."""
        return {context.peer() for context in self._open_calls}

    def admit(self, context: Context, method: str, principal: Principal | None) -> "AdmittedCall":
        """Admit a call for the duration of an ``async with`` block, which yields an :class:`AdmittedCall`.

        Args:
            context: The context of the call.
            method: The name of the method, such as ``ExecutePlan``.
            principal: The authenticated principal. None if no authentication method is configured. In this case, call
                :meth:`AdmittedCall.claim` as soon as the principal is known.

        Raises:
            GatewayError: If the call exceeds a limit. The block is not entered.
        """
        return AdmittedCall(self, context, method, principal)

    async def delay_failed_login(self, peer: str) -> None:
        """Wait before the reply to a failed login, if too many logins from its network address have failed.

        Args:
            peer: The network address of the client, as gRPC reports it.
        """
        if not self._failed_logins.hit(host_of(peer)):
            self._reports.report(LimitKind.FAILED_LOGINS)
            await self._delay()

    @asynccontextmanager
    async def limit_login(self, peer: str) -> AsyncIterator[None]:
        """Limit the verification of unknown credentials, because it can call another service.

        If too many logins from the network address of the client have failed, or are running, the login waits
        first. Only a few of these logins run at the same time, so that they leave room for other clients.

        Args:
            peer: The network address of the client, as gRPC reports it.

        Raises:
            GatewayError: If too many such logins wait already.
        """
        host = host_of(peer)
        is_doubtful = (
            not self._failed_logins.has_room(host) or self._logins[host] >= self._limits.failed_logins_per_minute
        )
        self._logins[host] += 1
        try:
            if is_doubtful:
                async with self._wait_for_login():
                    yield
            else:
                yield
        finally:
            self._logins[host] -= 1
            if not self._logins[host]:
                del self._logins[host]

    @asynccontextmanager
    async def _wait_for_login(self) -> AsyncIterator[None]:
        if self._doubtful_logins >= _MAX_DOUBTFUL_LOGINS:
            raise self._reports.exceeded(LimitKind.FAILED_LOGINS)
        self._reports.report(LimitKind.FAILED_LOGINS)
        self._doubtful_logins += 1
        try:
            await asyncio.sleep(_REFUSAL_DELAY_SECONDS)
            async with self._doubtful_login_slots:
                yield
        finally:
            self._doubtful_logins -= 1

    async def _open_call(self, context: Context) -> None:
        total = self.accounts.total
        if total.requests >= self._limits.max_requests_in_flight:
            await self._refuse(LimitKind.REQUESTS)
        total.requests += 1
        self._open_calls.add(context)
        context.add_done_callback(self._open_calls.discard)

    async def _open_principal_call(self, principal: Principal) -> Account:
        account = self.accounts.find_or_add(principal)
        if account.requests >= self._limits.max_principal_requests_in_flight:
            await self._refuse(LimitKind.PRINCIPAL_REQUESTS, principal)
        account.requests += 1
        try:
            if not self._request_rate.hit(principal):
                await self._wait_for_rate(principal)
            await self._turns.wait(principal)
        except BaseException:
            self._close_principal_call(account)
            raise
        return account

    def _close_principal_call(self, account: Account) -> None:
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
        """Refuse a call after a delay.

        Raises:
            GatewayError: Always.
        """
        await self._delay()
        raise self._reports.exceeded(kind, principal)

    async def _delay(self) -> None:
        """Wait before a reply, unless too many replies are already delayed."""
        if self._delayed >= _MAX_DELAYED_REPLIES:
            return
        self._delayed += 1
        try:
            await asyncio.sleep(_REFUSAL_DELAY_SECONDS)
        finally:
            self._delayed -= 1


class AdmittedCall:
    """The call of a client that has been admitted. It replaces gRPC's context of the call.

    It has all methods of ``grpc.aio.ServicerContext``. Messages that are read and written with it count for the limits.

    Args:
        admission: The limits.
        context: The context of the call.
        method: The name of the method.
        principal: The authenticated principal. None if it is not known yet.

    Attributes:
        responses: The responses of this call that are in memory.
        has_responded: Whether a response of a stream was sent.
    """

    __slots__ = (
        "_account",
        "_admission",
        "_context",
        "_is_responding",
        "_method",
        "_principal",
        "_request_bytes",
        "_statements",
        "has_responded",
        "responses",
    )

    def __init__(self, admission: Admission, context: Context, method: str, principal: Principal | None) -> None:
        self._admission = admission
        self._context = context
        self._method = method
        self._principal = principal
        self._account: Account | None = None
        self._is_responding = False
        self._request_bytes = 0
        self._statements = 0
        self.has_responded = False
        self.responses = ResponseFlow(admission._responses, context)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    async def __aenter__(self) -> "AdmittedCall":
        try:
            await self._admission._open_call(self._context)
        except GatewayError as error:
            self._admission._count_call(self._method, _code(error))
            raise
        if self._principal is not None:
            try:
                await self.claim(self._principal)
            except BaseException as error:
                await self.__aexit__(type(error), error, None)
                raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._release_request()
        if error is None and self._is_responding:
            self._context.add_done_callback(self._finish)
        else:
            self._finish(error=error)

    def _finish(self, _: Any = None, error: BaseException | None = None) -> None:
        admission, account = self._admission, self._account
        self.responses.close()
        for _ in range(self._statements):
            admission._end_statement(account)
        if account is not None:
            admission._close_principal_call(account)
        admission.accounts.total.requests -= 1
        admission._count_call(self._method, _code(error))

    async def claim(self, principal: Principal) -> None:
        """Count the call for a principal. Does nothing if the principal was already known.

        Raises:
            GatewayError: If the principal exceeds a limit.
        """
        if self._account is None:
            account = await self._admission._open_principal_call(principal)
            self._account = self.responses.account = account
            account.request_bytes += self._request_bytes

    async def read(self) -> Any:
        """Receive a message from the client. The message counts until the next call of this method.

        Returns:
            The message. ``grpc.aio.EOF`` at the end of the stream.

        Raises:
            GatewayError: If the client is too slow, or the messages in memory exceed a limit.
        """
        self._release_request()
        requests = self._admission._requests
        message = await requests.read(self._context.read, self._account)
        if isinstance(message, bytes):
            requests.add(len(message), self._account)
            self._request_bytes = len(message)
        return message

    def respond(self, response: bytes) -> bytes:
        """Count the only response of a call. gRPC sends it after the block, so the call remains open until then.

        Returns:
            The response.

        Raises:
            GatewayError: If the responses in memory exceed a limit.
        """
        self.responses.begin(response)
        self._is_responding = True
        return response

    async def write(self, message: bytes) -> None:
        """Send a response to the client.

        Raises:
            GatewayError: If the responses in memory exceed a limit.
            asyncio.CancelledError: If the client has disconnected.
        """
        self.has_responded = True
        try:
            await self.responses.send(message)
        except aio.InternalError as error:  # gRPC has not reported the disconnection yet
            raise asyncio.CancelledError from error

    def start_statement(self) -> None:
        """Count a statement that starts. It ends together with the call.

        Raises:
            GatewayError: If too many statements run.
        """
        self._admission._start_statement(self._account)
        self._statements += 1

    def follow_statement(self) -> None:
        """Count a statement that already runs. It is never refused."""
        self._admission._count_statement(self._account)
        self._statements += 1

    def keep_statement(self) -> Callable[[], None]:
        """Count a statement that may run longer than the call.

        Returns:
            A function to call when the statement has ended.
        """
        admission, account = self._admission, self._account
        admission._count_statement(account)
        return lambda: admission._end_statement(account)

    def _release_request(self) -> None:
        if self._request_bytes:
            self._admission._requests.remove(self._request_bytes, self._account)
            self._request_bytes = 0


def _code(error: BaseException | None) -> str:
    """Return the name of the status code with which a call ends."""
    match error:
        case None:
            return "OK"
        case GatewayError() as failed:
            code = failed.code
        case aio.AioRpcError():
            code = error.code()
        case asyncio.CancelledError():
            code = grpc.StatusCode.CANCELLED
        case _:
            code = grpc.StatusCode.INTERNAL
    return str(code.name)
