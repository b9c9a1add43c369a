"""The credentials that a client sends with an RPC.

Clients send a token in the metadata key ``authorization`` or ``authentication``, as ``Bearer TOKEN``.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

MAX_TOKEN_BYTES = 16 * 1024
TOKEN_KEYS = frozenset({"authorization", "authentication"})
_VISIBLE = re.compile(r"[!-~]+", re.ASCII)
_SCHEME = "bearer"
_CERTIFICATE_KEY = "x509_pem_cert"

Context = Any
"""``grpc.aio.ServicerContext``, for which grpc does not provide type annotations."""


class MalformedCredentialsError(ValueError):
    """Raised if metadata contains credentials that no method can accept. The message never contains a token."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """The credentials of one RPC.

    Attributes:
        token: The bearer token. Empty if the client sent none.
        certificate: The client certificate in PEM format, verified by TLS. None if the client presented none.
        peer: The network address of the client, for log events.
    """

    token: str = field(repr=False)
    certificate: bytes | None = field(default=None, repr=False)
    peer: str = ""


def read_credentials(context: Context) -> Credentials:
    """Return the credentials of an RPC.

    Raises:
        MalformedCredentialsError: If the metadata contains a malformed token or several different tokens.
    """
    return Credentials(read_token(context), read_certificate(context), context.peer() or "")


def read_token(context: Context) -> str:
    """Return the bearer token of an RPC, or an empty string if there is none.

    Raises:
        MalformedCredentialsError: If the metadata contains a malformed token or several different tokens.
    """
    token = ""
    for each in _tokens(context.invocation_metadata() or ()):
        if token and each != token:
            raise MalformedCredentialsError("the client sent several different tokens")
        token = each
    return token


def read_certificate(context: Context) -> bytes | None:
    """Return the client certificate of a connection in PEM format, or None if there is none."""
    found = context.auth_context().get(_CERTIFICATE_KEY)
    return found[0] if found else None


def _tokens(metadata: Any) -> Iterator[str]:
    for key, value in metadata:
        if key in TOKEN_KEYS:
            scheme, _, token = value.strip().partition(" ")
            if scheme.lower() != _SCHEME:
                raise MalformedCredentialsError("the client sent credentials without the scheme Bearer")
            token = token.strip()
            if _VISIBLE.fullmatch(token) is None:
                raise MalformedCredentialsError("the client sent a malformed bearer token")
            if len(token) > MAX_TOKEN_BYTES:
                raise MalformedCredentialsError(f"the client sent a token with more than {MAX_TOKEN_BYTES:,} bytes")
            yield token
