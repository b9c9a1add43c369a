"""The method ``kubernetes``: tokens that the Kubernetes API server verifies (TokenReview) [kubernetes-api].

Guarantees:

1. A token is accepted only if the API server has authenticated it for one of the configured audiences.
2. While the API server does not respond, no token is accepted, and clients are asked to try again.
3. The gateway sends at most :data:`THREADS` reviews at a time, and only one for each token. Tokens that Lodge has
   issued are never sent to the API server. Other tokens are sent only if they are JSON Web Tokens for one of the
   configured audiences, as all valid tokens of service accounts are.
"""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jwt
import urllib3
from cachetools import TTLCache
from kubernetes.client import ApiException, AuthenticationV1Api

from gateway.authentication.credentials import Credentials
from gateway.authentication.method import CredentialKind, DeniedError, Naming, UndecidedError
from gateway.authentication.token_entries import digest_of, is_lodge_token
from gateway.blocking_work.futures import retrieve_error
from gateway.blocking_work.pools import Pool
from gateway.errors import GatewayError, authentication_unavailable
from gateway.messages.identity import Identity
from gateway.reloading.last_valid_value import SourceError
from workspace.kubernetes.connection import Connection

THREADS = 8
_MAX_WAITING = 256
_REQUEST_SECONDS = (2.0, 5.0)
_TOTAL_SECONDS = 8.0
_REFUSED_SECONDS = 5.0
_REFUSED_TOKENS = 10_000
_FORBIDDEN = 403
_JWT_DOTS = 2
_UNVERIFIED: Any = {"verify_signature": False}
_PROBE = "lodge-start-probe"
_REVIEW = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview"}


@dataclass(frozen=True, slots=True)
class KubernetesSettings:
    """The settings of the method ``kubernetes``.

    Attributes:
        audiences: A token is valid for at least one of these audiences.
        cache_seconds: How long a verified token is accepted without another review.
        naming: How the method forms the names of principals and groups.
    """

    audiences: Sequence[str]
    cache_seconds: float = 10.0
    naming: Naming = field(default_factory=Naming)


class KubernetesMethod:
    """The authentication method ``kubernetes``.

    Args:
        settings: The settings.
        connection: The connection to the API server.

    Raises:
        SourceError: If the API server does not respond, or does not permit token reviews. The constructor blocks until
            the API server has responded.
    """

    kind = "kubernetes"
    reads = CredentialKind.BEARER_TOKEN

    def __init__(self, settings: KubernetesSettings, connection: Connection) -> None:
        self._settings = settings
        self._api = AuthenticationV1Api(connection.api_client)
        self._pool = Pool(
            "token-review",
            THREADS,
            refusal=lambda: authentication_unavailable("the Kubernetes API server does not respond"),
            timeout_seconds=_TOTAL_SECONDS,
            max_abandoned=THREADS,
            max_waiting=_MAX_WAITING,
        )
        self._running: dict[bytes, asyncio.Task[Identity]] = {}
        self._refused: TTLCache[bytes, DeniedError] = TTLCache(_REFUSED_TOKENS, _REFUSED_SECONDS)
        self.is_failing = False
        self._probe(connection.server)

    @property
    def max_cache_seconds(self) -> float:
        """How long a verified token is accepted without another review."""
        return self._settings.cache_seconds

    async def authenticate(self, credentials: Credentials) -> Identity | None:
        """Return the identity of a token that the API server accepts.

        Raises:
            DeniedError: If the API server refuses the token, or the token is not for a configured audience. The denial
                is not final.
            UndecidedError: If the API server does not respond.
        """
        token = credentials.token
        if is_lodge_token(token):
            return None
        _require_audience(token, self._settings.audiences)
        digest = digest_of(token)
        refused = self._refused.get(digest)
        if refused is not None:
            raise DeniedError(refused.reason, is_final=False)
        review = self._running.get(digest)
        if review is None:
            review = self._running[digest] = asyncio.create_task(self._review(token, digest))
            review.add_done_callback(retrieve_error)
        return await asyncio.shield(review)

    async def watch(self, on_change: Callable[[], None]) -> None:
        """Wait until the task is cancelled. The method has no source to watch."""
        try:
            await asyncio.Event().wait()
        finally:
            await self._pool.close()

    async def _review(self, token: str, digest: bytes) -> Identity:
        try:
            status = await self._pool.run_or_abandon(self._send, token)
            self.is_failing = False
            return self._identity(status, token)
        except DeniedError as denied:
            self._refused[digest] = DeniedError(denied.reason)
            raise
        except GatewayError:
            self.is_failing = True
            raise UndecidedError("the API server does not respond") from None
        except (ApiException, urllib3.exceptions.HTTPError) as error:
            self.is_failing = True
            raise UndecidedError(f"the API server cannot review the token: {_reason(error)}") from None
        finally:
            del self._running[digest]

    def _send(self, token: str) -> Any:
        body: Any = {**_REVIEW, "spec": {"token": token, "audiences": list(self._settings.audiences)}}
        return self._api.create_token_review(body, _request_timeout=_REQUEST_SECONDS).status

    def _identity(self, status: Any, token: str) -> Identity:
        if status is None or not status.authenticated or status.user is None or not status.user.username:
            raise DeniedError("the API server does not accept the token", is_final=False)
        if not set(status.audiences or ()) & set(self._settings.audiences):
            raise DeniedError("the API server did not verify the audience of the token", is_final=False)
        groups = status.user.groups or ()
        return self._settings.naming.identity(self.kind, status.user.username, groups, _expiry(token))

    def _probe(self, server: str) -> None:
        """Review an invalid token, to find a missing permission at the start."""
        try:
            self._send(_PROBE)
        except ApiException as error:
            advice = (
                "Bind the ClusterRole system:auth-delegator to the service account of the gateway."
                if error.status == _FORBIDDEN
                else "Check the address and the credentials of the API server."
            )
            raise SourceError(
                f"The Kubernetes API server [{server}] does not review tokens: {_reason(error)}. {advice}"
            ) from None
        except urllib3.exceptions.HTTPError as error:
            raise SourceError(
                f"The Kubernetes API server [{server}] cannot be reached: {_reason(error)}. Check its address, or "
                "remove the method kubernetes."
            ) from None


def _require_audience(token: str, audiences: Sequence[str]) -> None:
    """Refuse a token that cannot be valid, before the API server reviews it.

    Raises:
        DeniedError: If the token is not a JSON Web Token, or is not for one of the audiences. The denial is not final.
    """
    if token.count(".") != _JWT_DOTS:
        raise DeniedError("it is not a JSON Web Token", is_final=False)
    claims = _unverified_claims(token)
    if claims is None:
        raise DeniedError("it is not a JSON Web Token", is_final=False)
    claimed = claims.get("aud", ())
    claimed = (claimed,) if isinstance(claimed, str) else claimed
    if not isinstance(claimed, list | tuple) or not any(each in audiences for each in claimed):
        raise DeniedError("it is not for one of the configured audiences", is_final=False)


def _expiry(token: str) -> float | None:
    """Return when a verified token expires, if it is a JSON Web Token with an expiry.

    The token has been verified by the API server. The expiry only limits how long the result is cached.
    """
    claims = _unverified_claims(token)
    if claims is None:
        return None
    try:
        expires_at = float(claims["exp"])
    except (KeyError, TypeError, ValueError, OverflowError):
        return None
    return expires_at if expires_at > time.time() else None


def _unverified_claims(token: str) -> Mapping[str, Any] | None:
    """Return the claims of a token without verifying it. None if it is not a JSON Web Token."""
    try:
        return jwt.decode(token, options=_UNVERIFIED)
    except (jwt.PyJWTError, ValueError, RecursionError):
        return None


def _reason(error: ApiException | urllib3.exceptions.HTTPError) -> str:
    """Return a description of an error that contains neither the request nor the response."""
    if isinstance(error, ApiException):
        return f"HTTP status {error.status} {error.reason or ''}".strip()
    return type(error).__name__
