"""An identity provider for tests: keys, a JWKS, and valid and invalid tokens.

The tokens are JSON Web Tokens [jwt]. `Flaw` lists the ways in which a token can be invalid.
"""

import base64
import enum
import hmac
import json
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

ISSUER = "https://idp.example.com"
AUDIENCE = "lodge"
HOUR_SECONDS = 3600


class Flaw(enum.Enum):
    """What is wrong with a credential. The value is the name in test ids."""

    NONE = "none"
    MALFORMED = "malformed"
    WRONG_SIGNATURE = "wrong-signature"
    ALGORITHM_NONE = "algorithm-none"
    HS256_WITH_PUBLIC_KEY = "hs256-with-public-key"
    EXPIRED = "expired"
    NOT_YET_VALID = "not-yet-valid"
    WRONG_AUDIENCE = "wrong-audience"
    WRONG_ISSUER = "wrong-issuer"
    REVOKED = "revoked"


class SigningKey:
    """A key pair of an identity provider.

    Attributes:
        algorithm: The algorithm of its signatures, such as ``RS256``.
        key_id: The value of ``kid`` in the JWKS and in tokens.
        private: The private key. By default, a new one.
    """

    def __init__(self, algorithm: str, private: Any = None, key_id: str | None = None) -> None:
        self.algorithm = algorithm
        self.key_id = key_id or f"{algorithm.lower()}-{secrets.token_hex(4)}"
        self.private = private or _private_key(algorithm)

    @property
    def public_pem(self) -> bytes:
        """The public key as an attacker can read it from the JWKS."""
        form = serialization.PublicFormat.SubjectPublicKeyInfo
        return self.private.public_key().public_bytes(serialization.Encoding.PEM, form)

    def jwk(self) -> dict[str, Any]:
        """Return the public key as a JSON Web Key [jwk]."""
        described = jwt.get_algorithm_by_name(self.algorithm).to_jwk(self.private.public_key(), as_dict=True)
        return {**described, "kid": self.key_id, "alg": self.algorithm, "use": "sig"}

    def sign(self, claims: Mapping[str, Any]) -> str:
        return jwt.encode(dict(claims), self.private, self.algorithm, headers={"kid": self.key_id})


def _private_key(algorithm: str) -> Any:
    if algorithm.startswith(("RS", "PS")):
        return rsa.generate_private_key(public_exponent=65537, key_size=2048)
    if algorithm.startswith("ES"):
        curves: Mapping[str, ec.EllipticCurve] = {"ES256": ec.SECP256R1(), "ES384": ec.SECP384R1()}
        return ec.generate_private_key(curves[algorithm])
    return ed25519.Ed25519PrivateKey.generate()


class IdentityProvider:
    """An identity provider that publishes its keys and issues tokens.

    Attributes:
        issuer: The value of ``iss`` in its tokens.
        audience: The value of ``aud`` in its tokens.
        keys: The published keys. The first one signs.
        jwks_file: The file with the JWKS. It is replaced atomically when the keys change.
    """

    def __init__(
        self,
        directory: Path,
        *,
        algorithms: Sequence[str] = ("RS256", "ES256", "EdDSA"),
        issuer: str = ISSUER,
        audience: str = AUDIENCE,
    ) -> None:
        self.issuer = issuer
        self.audience = audience
        self.jwks_file = directory / "jwks.json"
        self.keys = [SigningKey(algorithm) for algorithm in algorithms]
        self.publish()

    def publish(self) -> None:
        """Write the JWKS file from the current keys."""
        new = self.jwks_file.with_suffix(".new")
        new.write_text(self.jwks())
        new.replace(self.jwks_file)

    def jwks(self) -> str:
        return json.dumps({"keys": [key.jwk() for key in self.keys]})

    def add_key(self, algorithm: str = "RS256") -> SigningKey:
        """Publish a further key."""
        self.keys.append(SigningKey(algorithm))
        self.publish()
        return self.keys[-1]

    def remove_key(self, key: SigningKey) -> None:
        """Withdraw a key, which revokes all tokens that it has signed."""
        self.keys.remove(key)
        self.publish()

    def claims(self, principal: str, groups: Sequence[str] = (), **others: Any) -> dict[str, Any]:
        """Return the claims of a valid token. A claim with the value None is omitted."""
        now = int(time.time())
        claims = {
            "iss": self.issuer,
            "aud": self.audience,
            "sub": principal,
            "groups": list(groups),
            "iat": now,
            "exp": now + HOUR_SECONDS,
            **others,
        }
        return {name: value for name, value in claims.items() if value is not None}

    def token(self, principal: str, groups: Sequence[str] = (), *, key: SigningKey | None = None, **claims: Any) -> str:
        """Return a token.

        Args:
            principal: The claim ``sub``.
            groups: The claim ``groups``.
            key: The key that signs; None for the first published one.
            claims: Further claims, which replace those of a valid token.
        """
        return (key or self.keys[0]).sign(self.claims(principal, groups, **claims))

    def flawed_token(self, principal: str, flaw: Flaw) -> str:
        """Return a token that a gateway must refuse.

        `Flaw.REVOKED` is signed with a key that was published only for a moment. A gateway may need time to notice
        that the key was withdrawn.
        """
        if flaw is Flaw.REVOKED:
            key = self.add_key()
            token = self.token(principal, key=key)
            self.remove_key(key)
            return token
        return flawed(flaw, self.claims(principal), self.keys[0])

    @contextmanager
    def serve(self) -> Iterator["JwksServer"]:
        """Serve the JWKS over HTTP on loopback."""
        server = JwksServer(self)
        try:
            yield server
        finally:
            server.stop()


def flawed(flaw: Flaw, claims: Mapping[str, Any], key: SigningKey) -> str:
    """Return a token with a flaw, made from the claims of a valid token and the key of its issuer."""
    if flaw in _WRONG_CLAIMS:
        now = int(time.time())
        return key.sign({**claims, **_WRONG_CLAIMS[flaw](now)})
    return _FORGERIES[flaw](claims, key)


_WRONG_CLAIMS: Mapping[Flaw, Callable[[int], Mapping[str, Any]]] = {
    Flaw.EXPIRED: lambda now: {"iat": now - 2 * HOUR_SECONDS, "nbf": now - 2 * HOUR_SECONDS, "exp": now - HOUR_SECONDS},
    Flaw.NOT_YET_VALID: lambda now: {"nbf": now + HOUR_SECONDS, "exp": now + 2 * HOUR_SECONDS},
    Flaw.WRONG_AUDIENCE: lambda _: {"aud": "another-service"},
    Flaw.WRONG_ISSUER: lambda _: {"iss": "https://idp.example.net"},
}


def _sign_with_other_key(claims: Mapping[str, Any], key: SigningKey) -> str:
    return SigningKey(key.algorithm, key_id=key.key_id).sign(claims)


def _sign_with_public_key(claims: Mapping[str, Any], key: SigningKey) -> str:
    """Return a token that a verifier accepts if it lets the token choose the algorithm [jwt-best-practices §2.1]."""
    text = _unsigned({"alg": "HS256", "typ": "JWT", "kid": key.key_id}, claims)
    return f"{text}.{_base64(hmac.digest(key.public_pem, text.encode(), 'sha256'))}"


_FORGERIES: Mapping[Flaw, Callable[[Mapping[str, Any], SigningKey], str]] = {
    Flaw.NONE: lambda _claims, _key: "",
    Flaw.MALFORMED: lambda _claims, _key: "bm90.YS50b2tlbg",
    Flaw.WRONG_SIGNATURE: _sign_with_other_key,
    Flaw.ALGORITHM_NONE: lambda claims, key: _unsigned({"alg": "none", "typ": "JWT", "kid": key.key_id}, claims) + ".",
    Flaw.HS256_WITH_PUBLIC_KEY: _sign_with_public_key,
}


def _unsigned(header: Mapping[str, Any], claims: Mapping[str, Any]) -> str:
    return f"{_base64(json.dumps(header).encode())}.{_base64(json.dumps(claims).encode())}"


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class JwksServer:
    """The JWKS of a provider over HTTP.

    Attributes:
        url: The address of the JWKS.
        status: The HTTP status of its answers. Tests change it to simulate a failure.
        requests: The number of requests so far.
    """

    def __init__(self, provider: IdentityProvider) -> None:
        self.status = 200
        self.requests = 0
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.requests += 1
                body = provider.jwks().encode()
                self.send_response(outer.status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name of http.server
                """Keep the output of tests free of requests."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/jwks.json"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop the server. Connections are refused afterwards."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
