"""Decides who sent an RPC.

Guarantees:

1. A client is authenticated only if one method has verified its credentials completely. Credentials that no method
   accepts are refused.
2. If a client sends a token and a certificate, only one of them counts: the one that the first method in the list
   reads. A token that is refused is not replaced with the certificate.
3. The result of a method is used again for at most :data:`CACHE_SECONDS`, and never after the credentials have expired
   or the source of a method has changed. The cache contains keyed hashes of tokens, not the tokens.
4. Tokens never appear in log events, errors or representations of objects.
5. The client learns only whether its credentials are missing, invalid or expired. The log contains the reasons.
6. Credentials that were accepted in the last hour are verified again without a limit, so that a client does not wait
   because others at its network address fail to log in.
"""

import asyncio
import hashlib
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import NamedTuple

import structlog
from cachetools import TLRUCache, TTLCache

from gateway.auditing.audit import Audit
from gateway.authentication.credentials import (
    Context,
    Credentials,
    MalformedCredentialsError,
    read_certificate,
    read_token,
)
from gateway.authentication.failure_log import Failure, FailureLog, Problem
from gateway.authentication.method import CredentialKind, DeniedError, Method, UndecidedError
from gateway.errors import GatewayError, authentication_unavailable, unauthenticated
from gateway.messages.identity import Identity

CACHE_SECONDS = 60.0
_ACCEPTED_SECONDS = 3600.0
_CACHED_IDENTITIES = 10_000
_RESTART_SECONDS = 5.0

_PRESENTED: Mapping[CredentialKind, Callable[[Context], bytes | None]] = {
    CredentialKind.BEARER_TOKEN: lambda context: read_token(context).encode(),
    CredentialKind.CERTIFICATE: read_certificate,
}
LoginLimit = Callable[[str], AbstractAsyncContextManager[None]]
log = structlog.get_logger(__name__)


def _count_nowhere(_kind: str, _problem: str) -> None:
    return


def _do_not_limit(_peer: str) -> AbstractAsyncContextManager[None]:
    return nullcontext()


class _Cached(NamedTuple):
    identity: Identity
    until: float


class Authenticator:
    """The configured authentication methods.

    Args:
        methods: The methods, in the order in which they are tried.
        audit: The audit events of the gateway. By default, no events are written.
        count_denial: Counts a failed authentication for the metrics, by the kind of the method and the problem.
    """

    def __init__(
        self,
        methods: Sequence[Method] = (),
        audit: Audit | None = None,
        count_denial: Callable[[str, str], None] = _count_nowhere,
    ) -> None:
        self._failures = FailureLog(Audit() if audit is None else audit, count_denial)
        self._key = secrets.token_bytes(32)
        self._cache: TLRUCache[bytes, _Cached] = TLRUCache(
            _CACHED_IDENTITIES, ttu=lambda _key, cached, _now: cached.until, timer=time.monotonic
        )
        self._accepted: TTLCache[bytes, None] = TTLCache(_CACHED_IDENTITIES, _ACCEPTED_SECONDS)
        self._generation = 0
        self._watches: dict[Method, asyncio.Task[None]] = {}
        self._is_started = False
        self._use(methods)

    @property
    def is_configured(self) -> bool:
        """Whether at least one method is configured."""
        return bool(self._methods)

    @property
    def failing_methods(self) -> Sequence[str]:
        """The kinds of the methods that work with old data, because they cannot read their source."""
        return [method.kind for method in self._methods if method.is_failing]

    async def start(self) -> None:
        """Start watching the sources of the methods."""
        self._is_started = True
        self._start_watches()

    async def replace(self, methods: Sequence[Method]) -> None:
        """Replace the methods. From now on, clients that the new methods do not accept are refused.

        Args:
            methods: The new methods. They may include current methods, which keep their state.
        """
        self._use(methods)
        if self._is_started:
            self._start_watches()
        await self._end_watches([method for method in self._watches if method not in self._methods])

    async def stop(self) -> None:
        """Stop watching the sources of the methods."""
        self._is_started = False
        await self._end_watches(list(self._watches))

    def forget(self) -> None:
        """Clear the cache, so that all credentials are verified again."""
        self._generation += 1
        self._cache.clear()

    async def identify(self, context: Context, limit_login: LoginLimit = _do_not_limit) -> Identity | None:
        """Return the identity of the client that sent an RPC, or None if no method is configured.

        Args:
            context: The context of the RPC.
            limit_login: A function of the network address of the client. It returns a block in which credentials are
                verified that were not accepted before.

        Raises:
            GatewayError: If the client is not authenticated.
        """
        if not self._methods:
            return None
        for kind in self._order:
            try:
                presented = _PRESENTED[kind](context)
            except MalformedCredentialsError as error:
                raise self._refuse(Problem.MALFORMED, context, [str(error)]) from None
            if presented:
                digest = hashlib.blake2b(presented, digest_size=32, key=self._key, person=kind.value).digest()
                cached = self._cache.get(digest)
                if cached is not None:
                    return cached.identity
                is_known = digest in self._accepted
                async with nullcontext() if is_known else limit_login(context.peer() or ""):
                    return await self._decide(kind, presented, digest, context)
        raise self._refuse(Problem.MISSING, context)

    def _use(self, methods: Sequence[Method]) -> None:
        self._methods = tuple(methods)
        self._order = tuple(dict.fromkeys(method.reads for method in self._methods))
        self.forget()

    async def _decide(self, kind: CredentialKind, presented: bytes, digest: bytes, context: Context) -> Identity:
        is_token = kind is CredentialKind.BEARER_TOKEN
        credentials = Credentials(
            presented.decode() if is_token else "", None if is_token else presented, context.peer() or ""
        )
        generation, started = self._generation, time.monotonic()
        answers: list[str] = []
        is_expired, is_undecided, decider = False, False, ""
        for method in self._methods:
            if method.reads is not kind:
                continue
            try:
                identity = await method.authenticate(credentials)
            except DeniedError as denied:
                answers.append(f"{method.kind}: {denied.reason}")
                is_expired = is_expired or denied.is_expired
                if denied.is_final:
                    is_undecided, decider = False, method.kind
                    break
            except UndecidedError as undecided:
                answers.append(f"{method.kind}: {undecided.reason}")
                is_undecided = True
            else:
                if identity is not None:
                    self._accepted[digest] = None
                    if generation == self._generation:
                        self._remember(digest, identity, method.max_cache_seconds, started)
                    return identity
                answers.append(f"{method.kind}: the credentials are not for this method")
        if not is_undecided:
            self._accepted.pop(digest, None)
        problem = Problem.UNDECIDED if is_undecided else Problem.EXPIRED if is_expired else Problem.INVALID
        raise self._refuse(problem, context, answers, decider)

    def _refuse(
        self, problem: Problem, context: Context, answers: Sequence[str] = (), decider: str = ""
    ) -> GatewayError:
        """Record a failed authentication, and return the error for the client."""
        kinds = {method.kind for method in self._methods}
        self._failures.add(Failure(problem, context.peer() or "", answers, kinds, decider))
        return (authentication_unavailable if problem is Problem.UNDECIDED else unauthenticated)(problem.text)

    def _remember(self, digest: bytes, identity: Identity, max_cache_seconds: float | None, started: float) -> None:
        seconds = CACHE_SECONDS if max_cache_seconds is None else min(max_cache_seconds, CACHE_SECONDS)
        if identity.expires_at is not None:
            seconds = min(seconds, identity.expires_at - time.time())
        if seconds > 0:
            self._cache[digest] = _Cached(identity, started + seconds)

    def _start_watches(self) -> None:
        for method in self._methods:
            if method not in self._watches:
                self._watches[method] = asyncio.create_task(self._watch(method))

    async def _end_watches(self, methods: Sequence[Method]) -> None:
        watches = [self._watches.pop(method) for method in methods]
        for watch in watches:
            watch.cancel()
        await asyncio.gather(*watches, return_exceptions=True)

    async def _watch(self, method: Method) -> None:
        """Watch the source of a method, and start again after an unexpected error."""
        while True:
            try:
                await method.watch(self.forget)
            except Exception:
                log.exception("authentication_watch_failed", method=method.kind)
            await asyncio.sleep(_RESTART_SECONDS)
