import asyncio
import base64
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.api_jws import PyJWS
from structlog.testing import capture_logs

from gateway.authentication.authenticator import Authenticator
from gateway.authentication.jwks import ALGORITHMS, parse_jwks
from gateway.authentication.jwt_tokens import JwtMethod, JwtSettings
from gateway.authentication.method import Naming
from gateway.errors import GatewayError
from gateway.messages.identity import Identity
from gateway.reloading.last_valid_value import SourceError
from tests.gateway.authentication.conftest import call_with, eventually, identify, refusal, watching
from tests.gateway.frozen_time import FrozenTime
from tests.identity.provider import Flaw, IdentityProvider, JwksServer, SigningKey

CHECK_SECONDS = 0.05
KEY_TYPES = ["RS256", "PS384", "ES256", "ES384", "EdDSA"]


def method(provider: IdentityProvider, **settings: Any) -> JwtMethod:
    defaults = {"groups_claim": "groups", "leeway_seconds": 0.0, "check_seconds": CHECK_SECONDS}
    return JwtMethod(
        JwtSettings(
            **{"jwks": provider.jwks_file, "issuer": provider.issuer, "audiences": ["lodge"], **defaults, **settings}
        )
    )


@pytest.fixture
def server(provider: IdentityProvider) -> Iterator[JwksServer]:
    with provider.serve() as server:
        yield server


@pytest.mark.parametrize("algorithm", KEY_TYPES)
async def test_token_authenticates_its_principal(tmp_path: Path, algorithm: str) -> None:
    provider = IdentityProvider(tmp_path, algorithms=[algorithm])
    identity = await identify(Authenticator([method(provider)]), call_with(provider.token("ada", ["ops"])))
    assert identity.principal == "ada"
    assert identity.groups == {"ops"}
    assert identity.method == "jwt"


@pytest.mark.parametrize("algorithm", KEY_TYPES)
@pytest.mark.parametrize(
    "flaw", [each for each in Flaw if each not in {Flaw.NONE, Flaw.REVOKED}], ids=lambda flaw: flaw.value
)
async def test_flawed_token_is_refused(tmp_path: Path, algorithm: str, flaw: Flaw) -> None:
    provider = IdentityProvider(tmp_path, algorithms=[algorithm])
    authenticator = Authenticator([method(provider, rotation_seconds=0.0)])
    reason = await refusal(authenticator, call_with(provider.flawed_token("ada", flaw)))
    assert reason == ("the credentials have expired" if flaw is Flaw.EXPIRED else "the credentials are not valid")


def forge(header: dict[str, Any], claims: dict[str, Any]) -> str:
    parts = (base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in (header, claims))
    return ".".join((*parts, "c2lnbmF0dXJl"))


@pytest.mark.parametrize("name", ["none", "None", "nOnE", "", "HS256", "HS512", "ES256K", "RS1", 7, None, ["RS256"]])
async def test_algorithm_that_is_not_permitted_is_refused(provider: IdentityProvider, name: object) -> None:
    token = forge({"alg": name, "kid": provider.keys[0].key_id}, provider.claims("ada"))
    await refusal(Authenticator([method(provider)]), call_with(token))


async def test_key_is_used_only_with_its_own_algorithm(tmp_path: Path) -> None:
    """The JWKS restricts the key to RS256. A signature with the same key and PS256 is not accepted."""
    provider = IdentityProvider(tmp_path, algorithms=["RS256"])
    key = provider.keys[0]
    token = jwt.encode(provider.claims("ada"), key.private, "PS256", headers={"kid": key.key_id})
    await refusal(Authenticator([method(provider)]), call_with(token))


async def test_configured_algorithms_are_the_only_ones(provider: IdentityProvider) -> None:
    authenticator = Authenticator([method(provider, algorithms=["ES256"])])
    permitted, *others = provider.keys
    await identify(authenticator, call_with(provider.token("ada", key=permitted)))
    for key in others:
        await refusal(authenticator, call_with(provider.token("ada", key=key)))


def test_all_algorithms_are_asymmetric() -> None:
    assert not [name for name in ALGORITHMS if name.startswith("HS") or name == "none"]


@pytest.mark.parametrize(
    "claims",
    [
        {"exp": None},
        {"exp": "4102444800"},
        {"exp": True},
        {"exp": 1e400},
        {"exp": [4102444800]},
        {"nbf": "0"},
        {"iat": "0"},
        {"iat": 4102444800},
        {"iss": None},
        {"iss": ["https://idp.example.com"]},
        {"aud": None},
        {"aud": {"lodge": True}},
        {"aud": ["other", 7]},
        {"sub": None},
        {"sub": 7},
        {"sub": ""},
        {"sub": ["ada"]},
        {"sub": "ada\nbob"},
        {"sub": "\ud800"},
        {"sub": "a" * 1025},
        {"groups": "ops"},
        {"groups": {"ops": True}},
        {"groups": ["ops", 7]},
        {"groups": ["ops", ""]},
        {"groups": ["ops\u2028"]},
    ],
    ids=repr,
)
async def test_claim_of_wrong_type_is_refused(provider: IdentityProvider, claims: dict[str, Any]) -> None:
    changed = {name: value for name, value in {**provider.claims("ada"), **claims}.items() if value is not None}
    key = provider.keys[0]
    token = PyJWS().encode(json.dumps(changed).encode(), key.private, key.algorithm, headers={"kid": key.key_id})
    await refusal(Authenticator([method(provider)]), call_with(token))


@pytest.mark.parametrize("expiry", [1e308, 10**400])
async def test_token_may_expire_in_the_far_future(provider: IdentityProvider, expiry: float) -> None:
    token = provider.token("ada", exp=expiry)
    assert (await identify(Authenticator([method(provider)]), call_with(token))).principal == "ada"


async def test_audience_may_be_one_of_several(provider: IdentityProvider) -> None:
    authenticator = Authenticator([method(provider, audiences=["lodge", "spark"])])
    await identify(authenticator, call_with(provider.token("ada", aud=["other", "spark"])))
    await refusal(authenticator, call_with(provider.token("ada", aud=["other"])))


async def test_clock_leeway_is_permitted(provider: IdentityProvider) -> None:
    now = int(time.time())
    strict, lenient = Authenticator([method(provider)]), Authenticator([method(provider, leeway_seconds=30.0)])
    for claims in ({"exp": now - 5}, {"nbf": now + 20}, {"iat": now + 20}):
        token = provider.token("ada", **claims)
        await refusal(strict, call_with(token))
        await identify(lenient, call_with(token))


async def test_claims_and_prefixes_are_configurable(provider: IdentityProvider) -> None:
    settings = {"principal_claim": "email", "groups_claim": None, "naming": Naming("idp:", "idp:")}
    authenticator = Authenticator([method(provider, **settings)])
    identity = await identify(
        authenticator, call_with(provider.token("7", email="ada@example.com", email_verified=True))
    )
    assert (identity.principal, identity.groups) == ("idp:ada@example.com", frozenset())
    await refusal(authenticator, call_with(provider.token("7", email="ada@example.com", email_verified=False)))


async def test_token_of_another_issuer_reaches_its_own_method(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    for directory in (ours, theirs):
        directory.mkdir()
    first, second = IdentityProvider(ours), IdentityProvider(theirs, issuer="https://other.example.com")
    authenticator = Authenticator([method(first), method(second, naming=Naming("other:"))])
    assert (await identify(authenticator, call_with(first.token("ada")))).principal == "ada"
    assert (await identify(authenticator, call_with(second.token("ada")))).principal == "other:ada"
    for claimed, signer in ((first, second), (second, first)):
        await refusal(authenticator, call_with(claimed.token("ada", key=signer.keys[0])))


async def test_log_contains_the_answer_of_each_method(provider: IdentityProvider) -> None:
    authenticator = Authenticator([method(provider)])
    token = provider.token("ada", iss="https://idp.example.net")
    with capture_logs() as logs:
        await refusal(authenticator, call_with(token))
        await refusal(authenticator, call_with(provider.token("ada", aud="other")))
        await refusal(authenticator, call_with(provider.token("ada", iss="\x1b[2J\n" + "x" * 1000)))
    assert [line["answers"] for line in logs] == [
        ["jwt: its issuer is [https://idp.example.net]"],
        ["jwt: audience doesn't match"],
        [f"jwt: its issuer is [?[2J?{'x' * 195}]"],
    ]
    assert logs[0]["peer"] == "ipv4:192.0.2.7:50000"
    assert token not in str(logs)


@pytest.mark.parametrize("has_key_id", [True, False])
async def test_key_without_id_verifies(provider: IdentityProvider, *, has_key_id: bool) -> None:
    described = [{name: value for name, value in key.jwk().items() if name != "kid"} for key in provider.keys]
    provider.jwks_file.write_text(json.dumps({"keys": described}))
    key = provider.keys[1]
    token = jwt.encode(provider.claims("ada"), key.private, key.algorithm, headers={"kid": "x"} if has_key_id else {})
    await identify(Authenticator([method(provider)]), call_with(token))


async def test_new_key_of_file_takes_effect_and_withdrawn_key_does_not(provider: IdentityProvider) -> None:
    async with watching(method(provider)) as authenticator:
        old, new = provider.keys[0], provider.add_key()
        await identify(authenticator, call_with(provider.token("ada", key=old)))

        async def is_accepted() -> bool:
            return await accepts(authenticator, provider.token("ada", key=new))

        await eventually(is_accepted, "the new key is read")
        token = provider.token("ada", key=old)
        await identify(authenticator, call_with(token))
        provider.remove_key(old)

        async def is_refused() -> bool:
            return not await accepts(authenticator, token)

        await eventually(is_refused, "the withdrawn key is forgotten, although the identity was cached")


async def accepts(authenticator: Authenticator, token: str) -> bool:
    try:
        await authenticator.identify(call_with(token))
    except GatewayError:
        return False
    return True


async def test_unknown_key_is_fetched_at_once(provider: IdentityProvider, server: JwksServer) -> None:
    authenticator = Authenticator([method(provider, jwks=server.url, rotation_seconds=0.0)])
    assert server.requests == 1
    await identify(authenticator, call_with(provider.token("ada")))
    assert server.requests == 1
    await identify(authenticator, call_with(provider.token("ada", key=provider.add_key())))
    assert server.requests == 2


async def test_unknown_keys_cause_few_requests(provider: IdentityProvider, server: JwksServer) -> None:
    authenticator = Authenticator([method(provider, jwks=server.url, rotation_seconds=60.0)])
    tokens = [provider.token("ada", key=SigningKey("EdDSA")) for _ in range(50)]
    assert not any(await asyncio.gather(*(accepts(authenticator, token) for token in tokens)))
    assert server.requests == 1


async def test_new_key_is_not_refused_while_jwks_cannot_be_read(provider: IdentityProvider, server: JwksServer) -> None:
    authenticator = Authenticator([method(provider, jwks=server.url, rotation_seconds=0.0)])
    token = provider.token("ada", key=provider.add_key())
    server.status = 500
    with pytest.raises(GatewayError) as undecided:
        await identify(authenticator, call_with(token))
    assert undecided.value.code is grpc.StatusCode.UNAVAILABLE
    server.status = 200
    assert (await identify(authenticator, call_with(token))).principal == "ada"


async def test_unreachable_jwks_keeps_keys_until_their_age(
    provider: IdentityProvider, server: JwksServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    frozen = FrozenTime()
    for module in ("gateway.authentication.source", "gateway.reloading.last_valid_value"):
        monkeypatch.setattr(f"{module}.time", frozen)
    settings = {"jwks": server.url, "refresh_seconds": 0.1, "max_age_seconds": 1000.0}
    async with watching(method(provider, **settings)) as authenticator:
        server.status = 500
        fetched = server.requests
        token = provider.token("ada")
        with capture_logs() as logs:

            async def has_failed() -> bool:
                return server.requests > fetched + 1

            await eventually(has_failed, "the failure is noticed")
            await identify(authenticator, call_with(token))
            assert authenticator.failing_methods == ["jwt"]
            frozen.advance(1001.0)

            async def is_refused() -> bool:
                return not await accepts(authenticator, token)

            await eventually(is_refused, "the keys are too old")
        events = {line["event"]: line for line in logs}
        assert events["authentication_source_failed"]["log_level"] == "error"
        assert "HTTP status 500" in events["authentication_source_failed"]["reason"]
        assert events["authentication_source_expired"]["log_level"] == "error"
        server.status = 200

        async def is_accepted() -> bool:
            return await accepts(authenticator, token)

        await eventually(is_accepted, "the keys are read again")
        assert authenticator.failing_methods == []


async def test_cancelled_call_does_not_cancel_the_fetch(provider: IdentityProvider, server: JwksServer) -> None:
    authenticator = Authenticator([method(provider, jwks=server.url, rotation_seconds=0.0)])
    token = provider.token("ada", key=provider.add_key())
    cancelled = asyncio.create_task(authenticator.identify(call_with(token)))
    await asyncio.sleep(0)
    cancelled.cancel()
    await asyncio.gather(cancelled, return_exceptions=True)

    async def is_accepted() -> bool:
        return await accepts(authenticator, token)

    await eventually(is_accepted, "the key is known")
    assert server.requests <= 3


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("{", "is not valid JSON"),
        ("[]", 'has no list "keys"'),
        ("{}", 'has no list "keys"'),
        ('{"keys": []}', "contains no public key for signatures"),
        ('{"keys": [7, {"kty": "oct", "k": "c2VjcmV0"}, {"kty": ["RSA"]}]}', "contains no public key for signatures"),
        ('{"keys": [{"kty": "RSA", "n": "AQAB", "e": "AQAB"}]}', "contains no public key for signatures"),
        ('{"keys": [{"kty": "OKP", "crv": "Ed25519", "x": "AQAB"}]}', "contains no public key for signatures"),
        (json.dumps({"keys": [{}] * 101}), "more than 100 keys"),
        ("[" * 100_000, "is not valid JSON"),
    ],
)
def test_invalid_jwks_is_explained(content: str, problem: str) -> None:
    with pytest.raises(SourceError, match=r"\[/etc/jwks\.json\]") as error:
        parse_jwks("/etc/jwks.json", content.encode())
    assert problem in str(error.value)


def test_private_and_weak_and_encryption_keys_are_not_used(provider: IdentityProvider) -> None:
    algorithm = jwt.get_algorithm_by_name("RS256")
    private = algorithm.to_jwk(rsa.generate_private_key(public_exponent=65537, key_size=2048), as_dict=True)
    with pytest.raises(SourceError, match="contains a private key"):
        parse_jwks("jwks", json.dumps({"keys": [private]}).encode())
    weak = rsa.generate_private_key(public_exponent=65537, key_size=1024).public_key()  # noqa: S505 - must be refused
    for unusable in (algorithm.to_jwk(weak, as_dict=True), {**provider.keys[0].jwk(), "use": "enc"}):
        with pytest.raises(SourceError, match="contains no public key for signatures"):
            parse_jwks("jwks", json.dumps({"keys": [unusable]}).encode())


def test_missing_file_is_explained(provider: IdentityProvider, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"The JWKS file \[.*missing\] cannot be read: No such file"):
        method(provider, jwks=tmp_path / "missing")


def test_unreachable_server_is_explained(provider: IdentityProvider) -> None:
    with provider.serve() as server:
        url = server.url
    with pytest.raises(SourceError, match=r"The URL \[http://127.0.0.1.*\] cannot be read: .*refused"):
        method(provider, jwks=url)


async def test_cached_identity_is_that_of_the_token(provider: IdentityProvider) -> None:
    authenticator = Authenticator([method(provider)])
    token = provider.token("ada")
    first = await identify(authenticator, call_with(token))
    assert await identify(authenticator, call_with(token)) is first
    assert isinstance(first, Identity)
    await refusal(authenticator, call_with(token + "x"))
