"""The public keys of an identity provider: a JSON Web Key Set [jwk].

A key is used only with the algorithms that fit its type, and never with an algorithm that a token chooses freely.
Symmetric keys are ignored. Therefore, neither a token without a signature nor a token that is signed with the public
key as a secret can be valid.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jwt
from jwt.algorithms import AllowedPublicKeys

from gateway.reloading.last_valid_value import SourceError

MAX_JWKS_BYTES = 1024 * 1024
_MAX_KEYS = 100
_MAX_CANDIDATES = 16
_MINIMUM_RSA_BITS = 2048

_RSA = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
_ALGORITHMS_OF_TYPE: Mapping[tuple[str, str | None], Sequence[str]] = {
    ("RSA", None): _RSA,
    ("EC", "P-256"): ("ES256",),
    ("EC", "P-384"): ("ES384",),
    ("EC", "P-521"): ("ES512",),
    ("OKP", "Ed25519"): ("EdDSA",),
}
ALGORITHMS = tuple(name for names in _ALGORITHMS_OF_TYPE.values() for name in names)
"""All algorithms that can be configured. None of them is symmetric."""


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A public key, and the algorithms for which it may be used.

    Attributes:
        key_id: The ``kid`` of the key. None if it has none.
        key: The key.
        algorithms: The names of the algorithms.
    """

    key_id: str | None
    key: AllowedPublicKeys
    algorithms: frozenset[str]


@dataclass(frozen=True, slots=True)
class KeySet:
    """The keys of a JWKS that can verify signatures."""

    keys: Sequence[PublicKey]

    def candidates(self, key_id: str | None, algorithm: str) -> Sequence[PublicKey]:
        """Return the keys that may have signed a token.

        If the token has a key id, these are the keys with this id or, if there are none, the keys without an id.

        Args:
            key_id: The ``kid`` of the token. None if it has none.
            algorithm: The algorithm of the token.
        """
        fitting = [key for key in self.keys if algorithm in key.algorithms]
        if key_id is not None:
            fitting = [key for key in fitting if key.key_id == key_id] or [key for key in fitting if key.key_id is None]
        return fitting[:_MAX_CANDIDATES]


def parse_jwks(name: str, content: bytes) -> KeySet:
    """Return the keys of a JWKS.

    Keys for other purposes than signatures, and keys of unknown types, are ignored.

    Args:
        name: The path or URL of the JWKS, for messages.
        content: The JWKS.

    Raises:
        SourceError: If the content is not a JWKS, contains private keys, or contains no key that can verify signatures.
    """
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        raise SourceError(f"The JWKS [{name}] is not valid JSON. {_ADVICE}") from None
    listed = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(listed, list):
        raise SourceError(f'The JWKS [{name}] has no list "keys". {_ADVICE}')
    if len(listed) > _MAX_KEYS:
        raise SourceError(f"The JWKS [{name}] has more than {_MAX_KEYS} keys. {_ADVICE}")
    described = [each for each in listed if isinstance(each, dict)]
    if any("d" in each for each in described):
        raise SourceError(f"The JWKS [{name}] contains a private key. Remove it from the file, and replace the key.")
    keys = [key for each in described if (key := _public_key(each)) is not None]
    if not keys:
        raise SourceError(
            f"The JWKS [{name}] contains no public key for signatures. It needs an RSA key with at least "
            f"{_MINIMUM_RSA_BITS} bits, an EC key (P-256, P-384, P-521) or an Ed25519 key."
        )
    return KeySet(tuple(keys))


_ADVICE = "Give the document that the identity provider publishes as jwks_uri."


def _public_key(described: Mapping[str, Any]) -> PublicKey | None:
    key_type, curve, key_id = described.get("kty"), described.get("crv"), described.get("kid")
    if not isinstance(key_type, str) or not isinstance(curve, str | None) or not isinstance(key_id, str | None):
        return None
    fitting = _ALGORITHMS_OF_TYPE.get((key_type, curve if key_type != "RSA" else None), ())
    if "alg" in described:
        fitting = tuple(name for name in fitting if name == described["alg"])
    operations = described.get("key_ops")
    is_for_signatures = described.get("use") in (None, "sig") and (
        operations is None or (isinstance(operations, list) and "verify" in operations)
    )
    if not fitting or not is_for_signatures:
        return None
    try:
        key: Any = jwt.PyJWK(dict(described), fitting[0]).key
    except (jwt.PyJWTError, ValueError, TypeError):
        return None
    if key_type == "RSA" and key.key_size < _MINIMUM_RSA_BITS:
        return None
    return PublicKey(key_id, key, frozenset(fitting))
