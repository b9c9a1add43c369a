"""The setting ``authentication`` of ``lodge serve``: a list of authentication methods.

In the YAML file, the setting is a list of mappings. As an option or an environment variable, it is the same list in one
line, for example ``--authentication '[{kind: tokens, file: /etc/lodge/tokens.yaml}]'``.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictStr,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)
from pydantic_core import ErrorDetails
from pydantic_settings import NoDecode

from lodge.setting_types import Duration, DurationOrZero, Metavar

ASYMMETRIC_ALGORITHMS = (
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA",
)  # fmt: skip
_KINDS = ("tokens", "jwt", "kubernetes", "certificate")
_EXPECTED = "it must be a list of authentication methods, such as [{kind: tokens, file: /etc/lodge/tokens.yaml}]"
_MAX_METHODS = 16


def _list(value: object) -> object:
    return [value] if isinstance(value, str) else value


def _check_jwks(value: str) -> str:
    parts = urlsplit(value)
    is_file = parts.scheme == "file" and not parts.netloc and parts.path.startswith("/")
    is_url = parts.scheme in ("http", "https") and bool(parts.hostname) and not parts.username and not parts.password
    if not (is_file or is_url) or parts.fragment:
        raise ValueError(
            "it must be the URL of a JWKS, such as https://idp.example.com/jwks.json or file:///etc/lodge/jwks.json"
        )
    return value


def _check_algorithm(value: str) -> str:
    if value not in ASYMMETRIC_ALGORITHMS:
        raise ValueError(
            f"the algorithm [{value}] cannot be used; with a public key, only these are safe: "
            f"{', '.join(ASYMMETRIC_ALGORITHMS)}"
        )
    return value


def _no_duplicates(value: tuple[str, ...]) -> tuple[str, ...]:
    if len(set(value)) != len(value):
        raise ValueError("it contains a value twice")
    return value


_Text = Annotated[StrictStr, Field(min_length=1, max_length=1024)]
_Texts = Annotated[tuple[_Text, ...], BeforeValidator(_list), Field(min_length=1), AfterValidator(_no_duplicates)]


class _MethodSettings(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    principal_prefix: StrictStr = ""
    groups_prefix: StrictStr = ""


class TokensSettings(_MethodSettings):
    """The method ``tokens``: see :mod:`gateway.authentication.token_file`."""

    kind: Literal["tokens"]
    file: Path


class JwtSettings(_MethodSettings):
    """The method ``jwt``: see :mod:`gateway.authentication.jwt_tokens`."""

    kind: Literal["jwt"]
    jwks: Annotated[StrictStr, AfterValidator(_check_jwks)]
    issuer: _Text
    audience: _Texts
    principal_claim: _Text = "sub"
    groups_claim: _Text | None = None
    algorithms: Annotated[
        tuple[Annotated[StrictStr, AfterValidator(_check_algorithm)], ...], BeforeValidator(_list), Field(min_length=1)
    ] = ASYMMETRIC_ALGORITHMS
    leeway: DurationOrZero = timedelta(seconds=30)
    jwks_refresh: Duration = timedelta(minutes=5)
    jwks_rotation: Duration = timedelta(seconds=10)
    jwks_max_age: Duration = timedelta(hours=24)
    jwks_ca: Path | None = None


class KubernetesSettings(_MethodSettings):
    """The method ``kubernetes``: see :mod:`gateway.authentication.kubernetes_tokens`."""

    kind: Literal["kubernetes"]
    audiences: _Texts
    cache: Annotated[DurationOrZero, Field(le=timedelta(seconds=60))] = timedelta(seconds=10)


CertificateNameKind = Literal["uri", "email", "dns", "common_name"]


class CertificateSettings(_MethodSettings):
    """The method ``certificate``: see :mod:`gateway.authentication.client_certificates`."""

    kind: Literal["certificate"]
    principal_from: Annotated[
        tuple[CertificateNameKind, ...], BeforeValidator(_list), Field(min_length=1), AfterValidator(_no_duplicates)
    ] = ("uri", "email", "dns", "common_name")
    groups_from: Literal["organization", "organizational_unit"] | None = None


MethodSettings = Annotated[
    TokensSettings | JwtSettings | KubernetesSettings | CertificateSettings, Field(discriminator="kind")
]


def _read(value: object, validate: ValidatorFunctionWrapHandler) -> tuple[_MethodSettings, ...]:
    """Validate the list, and describe all problems in one message."""
    if isinstance(value, str):
        try:
            value = yaml.safe_load(value)
        except (yaml.YAMLError, RecursionError):
            raise ValueError(_EXPECTED) from None
    if value is None:
        return ()
    if not isinstance(value, list | tuple) or len(value) > _MAX_METHODS:
        raise ValueError(_EXPECTED)
    try:
        methods: tuple[_MethodSettings, ...] = validate([_with_plain_keys(each) for each in value])
    except ValidationError as error:
        raise ValueError("; ".join(_explain(problem) for problem in error.errors(include_url=False))) from None
    _check_contradictions(methods)
    return methods


def _with_plain_keys(method: object) -> object:
    if not isinstance(method, Mapping):
        return method
    return {str(key).replace("-", "_"): value for key, value in method.items()}


def _explain(problem: ErrorDetails) -> str:
    position, *path = problem["loc"]
    place = f"method {int(position) + 1}"
    if path and path[0] in _KINDS:
        place += f" ({path[0]})"
        path = path[1:]
    key = ".".join(str(part) for part in path)
    match problem["type"]:
        case "missing":
            return f"{place} needs the key {key}"
        case "extra_forbidden":
            return f"{place} has the unknown key {key}"
        case "union_tag_invalid":
            return f"{place} has an unknown kind; the kinds are {', '.join(_KINDS)}"
        case "union_tag_not_found":
            return f"{place} needs the key kind; the kinds are {', '.join(_KINDS)}"
        case "model_attributes_type" | "model_type":
            return f"{place} must be a mapping, such as {{kind: tokens, file: /etc/lodge/tokens.yaml}}"
        case _:
            reason = problem.get("ctx", {}).get("error") or problem["msg"]
            return f"the key {key} of {place} is not valid: {reason}"


def _check_contradictions(methods: Sequence[_MethodSettings]) -> None:
    """Check that no two methods decide about the same credentials.

    Raises:
        ValueError: If two methods contradict each other.
    """
    for kind in ("kubernetes", "certificate"):
        if sum(getattr(method, "kind", None) == kind for method in methods) > 1:
            raise ValueError(f"the kind {kind} may occur only once; combine the two methods")
    issuers = Counter(method.issuer for method in methods if isinstance(method, JwtSettings))
    files = Counter(method.file for method in methods if isinstance(method, TokensSettings))
    for issuer, count in issuers.items():
        if count > 1:
            raise ValueError(
                f"two methods have the issuer [{issuer}], so the first would refuse the tokens of the second; combine "
                "them, with a list as audience"
            )
    for file, count in files.items():
        if count > 1:
            raise ValueError(f"two methods have the file [{file}]; remove one of them")


AuthenticationMethods = Annotated[tuple[MethodSettings, ...], NoDecode, WrapValidator(_read), Metavar("LIST")]
