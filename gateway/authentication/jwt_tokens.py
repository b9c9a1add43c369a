"""The method ``jwt``: JSON Web Tokens [jwt] of an identity provider.

A token is for this method if its claim ``iss`` is the configured issuer. The claim is read before the signature is
verified, but only to select the method: from then on, the decision of this method is final. There is at most one method
for each issuer.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import jwt

from gateway.authentication.credentials import Credentials
from gateway.authentication.http_source import read_url
from gateway.authentication.jwks import ALGORITHMS, MAX_JWKS_BYTES, KeySet, parse_jwks
from gateway.authentication.method import CredentialKind, DeniedError, Naming, UndecidedError
from gateway.authentication.source import Source
from gateway.messages.identity import Identity
from gateway.reloading.files import read_file
from gateway.reloading.source_memory import SourceMemory

_TIMEOUT_SECONDS = 10.0
_JWT_PARTS = 3
_UNVERIFIED = {"verify_signature": False}
_TIMES = ("exp", "nbf", "iat")
_MAX_SHOWN_CHARACTERS = 200
_LAST_EXPIRY = 1e15  # a larger integer may not fit into a float


@dataclass(frozen=True, slots=True)
class JwtSettings:
    """The settings of the method ``jwt``.

    Attributes:
        jwks: The path of a file with the JWKS, or its URL.
        issuer: The claim ``iss`` of valid tokens.
        audiences: The claim ``aud`` of a valid token contains at least one of these audiences.
        principal_claim: The claim with the principal.
        groups_claim: The claim with the list of groups. None if tokens contain no groups.
        algorithms: The permitted algorithms.
        leeway_seconds: The permitted difference between the clocks of the gateway and the identity provider.
        refresh_seconds: How often the keys are read from a URL.
        rotation_seconds: How often the keys may be read because of a token with an unknown key.
        max_age_seconds: How long the known keys are used while the JWKS cannot be read.
        ca_file: Certificates that may sign the certificate of the JWKS server.
        check_seconds: How often the method looks for changes of a JWKS file.
        naming: How the method forms the names of principals and groups.
    """

    jwks: Path | str
    issuer: str
    audiences: Sequence[str]
    principal_claim: str = "sub"
    groups_claim: str | None = None
    algorithms: Sequence[str] = ALGORITHMS
    leeway_seconds: float = 30.0
    refresh_seconds: float = 300.0
    rotation_seconds: float = 10.0
    max_age_seconds: float = 86_400.0
    ca_file: Path | None = None
    check_seconds: float = 1.0
    naming: Naming = field(default_factory=Naming)


class JwtMethod:
    """The authentication method ``jwt``.

    Args:
        settings: The settings.
        memory: Keeps the JWKS for the gateway that replaces this one.

    Raises:
        SourceError: If the JWKS cannot be read or is not valid.
    """

    kind = "jwt"
    reads = CredentialKind.BEARER_TOKEN
    max_cache_seconds: float | None = None

    def __init__(self, settings: JwtSettings, memory: SourceMemory | None = None) -> None:
        self._settings = settings
        name, jwks = str(settings.jwks), settings.jwks
        self._keys: Source[KeySet] = Source(
            name,
            partial(read_file, jwks, label=f"The JWKS file [{jwks}]", max_bytes=MAX_JWKS_BYTES)
            if isinstance(jwks, Path)
            else partial(read_url, jwks, ca_file=settings.ca_file, max_bytes=MAX_JWKS_BYTES),
            partial(parse_jwks, name),
            period_seconds=settings.check_seconds if isinstance(jwks, Path) else settings.refresh_seconds,
            timeout_seconds=_TIMEOUT_SECONDS,
            max_age_seconds=settings.max_age_seconds,
            memory=memory,
        )

    @property
    def is_failing(self) -> bool:
        """Whether the last read of the JWKS failed."""
        return self._keys.is_failing

    async def authenticate(self, credentials: Credentials) -> Identity | None:
        """Return the identity of a valid token of the issuer.

        Raises:
            DeniedError: If the token is not valid.
            UndecidedError: If the key of the token is not known, and the JWKS cannot be read at present.
        """
        token = credentials.token
        if token.count(".") != _JWT_PARTS - 1:
            return None
        try:
            unverified = jwt.decode_complete(token, options=_UNVERIFIED)  # type: ignore[arg-type]  # a TypedDict
        except (jwt.PyJWTError, ValueError, RecursionError):
            raise DeniedError("it is not a JSON Web Token", is_final=False) from None
        issuer = unverified["payload"].get("iss")
        if issuer != self._settings.issuer:
            raise DeniedError(f"its issuer is {_shown(issuer)}", is_final=False)
        return self._identity(await self._verify(token, unverified["header"]))

    async def watch(self, on_change: Callable[[], None]) -> None:
        """Read the keys periodically until the task is cancelled."""
        await self._keys.watch(on_change)

    async def _verify(self, token: str, header: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the claims of a token after verifying its signature, issuer, audience and times."""
        algorithm, key_id = header.get("alg"), header.get("kid")
        if not isinstance(algorithm, str) or algorithm not in self._settings.algorithms:
            raise DeniedError(f"its algorithm {_shown(algorithm)} is not permitted")
        candidates = self._known_keys().candidates(key_id, algorithm)
        if not candidates:
            await self._keys.refresh(self._settings.rotation_seconds)
            candidates = self._known_keys().candidates(key_id, algorithm)
        if not candidates and self._keys.is_failing:
            raise UndecidedError(f"the JWKS cannot be read at present, and has had no key {_shown(key_id)}")
        if not candidates:
            raise DeniedError(f"the JWKS has no key {_shown(key_id)} for the algorithm {algorithm}")
        for candidate in candidates:
            try:
                claims: Mapping[str, Any] = jwt.decode(
                    token,
                    candidate.key,
                    algorithms=[algorithm],
                    issuer=self._settings.issuer,
                    audience=self._settings.audiences,
                    leeway=self._settings.leeway_seconds,
                    options={"require": ["exp", "iss", "aud"]},
                )
            except jwt.InvalidSignatureError:
                continue
            except jwt.ExpiredSignatureError:
                raise DeniedError("it has expired", is_expired=True) from None
            except (jwt.PyJWTError, ValueError, TypeError, OverflowError, RecursionError) as error:
                raise DeniedError(_lower_first(str(error))) from None
            return claims
        raise DeniedError("its signature is not valid")

    def _known_keys(self) -> KeySet:
        keys = self._keys.value
        if keys is None:
            raise DeniedError(f"the keys of [{self._settings.jwks}] are too old, because they could not be read again")
        return keys

    def _identity(self, claims: Mapping[str, Any]) -> Identity:
        for name in _TIMES:
            if not isinstance(claims.get(name, 0), int | float) or isinstance(claims.get(name), bool):
                raise DeniedError(f"its claim [{name}] is not a number")
        settings = self._settings
        principal = claims.get(settings.principal_claim)
        if not isinstance(principal, str):
            raise DeniedError(f"its claim [{settings.principal_claim}] is missing or not a string")
        if settings.principal_claim == "email" and claims.get("email_verified", True) is not True:
            raise DeniedError("its email address is not verified")
        groups = [] if settings.groups_claim is None else claims.get(settings.groups_claim, [])
        if not isinstance(groups, list) or not all(isinstance(group, str) for group in groups):
            raise DeniedError(f"its claim [{settings.groups_claim}] is not a list of strings")
        expires_at = float(min(claims["exp"], _LAST_EXPIRY)) + settings.leeway_seconds
        return settings.naming.identity(self.kind, principal, groups, expires_at)


def _shown(value: object) -> str:
    """Return a value of an unverified token for the log, shortened and without control characters."""
    if value is None:
        return "missing"
    text = str(value)[:_MAX_SHOWN_CHARACTERS]
    return f"[{''.join(character if character.isprintable() else '?' for character in text)}]"


def _lower_first(text: str) -> str:
    return text[:1].lower() + text[1:]
