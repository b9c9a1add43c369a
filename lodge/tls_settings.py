"""The setting ``tls`` of ``lodge serve``.

In the YAML file, the setting is a mapping. As an option or an environment variable, it is the same mapping in one line,
for example ``--tls '{certificate: /etc/lodge/tls.crt, key: /etc/lodge/tls.key}'``.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import yaml
from pydantic import ConfigDict, ValidationError, ValidatorFunctionWrapHandler, WrapValidator
from pydantic_settings import NoDecode

from lodge.setting_types import ListenAddress, Metavar

CERTIFICATE_METHOD = "certificate"
_EXPECTED = "it must be a mapping with the keys certificate and key, and optionally client_ca and "
_EXPECTED += "client_certificate_listen"


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """TLS for the connections of clients.

    Attributes:
        certificate: The PEM file with the certificate of the gateway, followed by the intermediate certificates.
        key: The PEM file with the private key of the certificate.
        client_ca: The PEM file with the certificate authorities that sign client certificates.
        client_certificate_listen: The address for clients with certificates, if clients may also use other credentials.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    certificate: Path
    key: Path
    client_ca: Path | None = None
    client_certificate_listen: ListenAddress | None = None


def _read(value: object, validate: ValidatorFunctionWrapHandler) -> TlsSettings | None:
    if isinstance(value, str):
        try:
            value = yaml.safe_load(value)
        except yaml.YAMLError:
            raise ValueError(_EXPECTED) from None
    if value is None or isinstance(value, TlsSettings):
        return value
    if not isinstance(value, Mapping):
        raise ValueError(_EXPECTED)
    try:
        settings: TlsSettings | None = validate({str(key).replace("-", "_"): each for key, each in value.items()})
    except ValidationError as error:
        problem = error.errors()[0]
        key = str(problem["loc"][-1])
        reasons = {"missing": "is missing", "unexpected_keyword_argument": "is unknown"}
        reason = (
            reasons.get(problem["type"]) or f"is not valid: {problem.get('ctx', {}).get('error') or problem['msg']}"
        )
        raise ValueError(f"{_EXPECTED}; the key {key} {reason}") from None
    return settings


TlsMapping = Annotated[TlsSettings | None, NoDecode, WrapValidator(_read), Metavar("MAPPING")]


def check_client_certificates(tls: TlsSettings | None, methods: Collection[str]) -> None:
    """Check that the TLS settings and the authentication methods agree.

    Args:
        tls: The TLS settings.
        methods: The kinds of the authentication methods.

    Raises:
        ValueError: If they contradict each other.
    """
    has_method = CERTIFICATE_METHOD in methods
    if has_method and (tls is None or tls.client_ca is None):
        raise ValueError(
            "the authentication method certificate needs client_ca, the certificate authorities that sign the "
            "certificates of clients"
        )
    if tls is None:
        return
    if tls.client_ca is not None and not has_method:
        raise ValueError(
            "client_ca needs the authentication method certificate; add {kind: certificate} to the setting "
            "authentication, or remove client_ca"
        )
    if tls.client_certificate_listen is not None and not has_method:
        raise ValueError(
            "client_certificate_listen needs the authentication method certificate; add {kind: certificate} to the "
            "setting authentication, or remove client_certificate_listen"
        )
    if tls.client_certificate_listen is not None and set(methods) == {CERTIFICATE_METHOD}:
        raise ValueError(
            "with certificate as the only authentication method, the address of the setting listen requires client "
            "certificates; remove client_certificate_listen"
        )
