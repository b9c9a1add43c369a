"""The authentication methods as tests configure them, each with valid and invalid credentials."""

import hashlib
import io
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import grpc
import jwt
import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.x509.oid import ExtendedKeyUsageOID
from kubernetes.client import AuthenticationV1Api, CoreV1Api

from lodge.cli import main
from tests.cluster.cluster import Cluster
from tests.identity.certificates import DAY, CertificateAuthority, CertificateFiles
from tests.identity.provider import AUDIENCE, HOUR_SECONDS, Flaw, IdentityProvider, SigningKey, flawed


@dataclass(frozen=True, slots=True)
class Credential:
    """What a client presents: a token, or the certificate of its connection, or neither."""

    token: str = field(default="", repr=False)
    certificate: CertificateFiles | None = None

    def metadata(self, key: str = "authorization") -> list[tuple[str, str]]:
        return [(key, f"Bearer {self.token}")] if self.token else []

    def channel(self, target: str, authority: Path | None) -> grpc.Channel:
        """Return a channel to a server.

        Args:
            target: The address ``host:port``.
            authority: The PEM file with the authority of the server's certificate. None for a connection without TLS.
        """
        if authority is None:
            return grpc.insecure_channel(target)
        key = certificate = None
        if self.certificate is not None:
            key, certificate = self.certificate.key.read_bytes(), self.certificate.certificate.read_bytes()
        return grpc.secure_channel(target, grpc.ssl_channel_credentials(authority.read_bytes(), key, certificate))


class MethodUnderTest(Protocol):
    """An authentication method with its settings and credentials."""

    kind: str

    def principal(self, name: str) -> str:
        """Return the principal that a credential with a name proves."""

    def settings(self) -> Mapping[str, Any]:
        """Return the entry of the method in the setting ``authentication``."""

    def valid(self, principal: str) -> Credential:
        """Return a credential with a name."""

    def flawed(self, principal: str, flaw: Flaw) -> Credential:
        """Return a credential that the method must refuse, with any flaw but `Flaw.REVOKED`."""

    def revocable(self, principal: str) -> Credential:
        """Return a valid credential that `revoke` invalidates."""

    def revoke(self) -> None:
        """Revoke the credential of `revocable`."""

    def is_refused_by_tls(self, credential: Credential) -> bool:
        """Return whether a connection with the credential may fail, so that the gateway cannot answer."""


class JwtMethod:
    """Tokens of an identity provider."""

    kind = "jwt"

    def principal(self, name: str) -> str:
        return name

    def __init__(self, provider: IdentityProvider) -> None:
        self._provider = provider
        self._withdrawn: SigningKey | None = None

    def settings(self) -> Mapping[str, Any]:
        return {
            "kind": "jwt",
            "jwks": self._provider.jwks_file.as_uri(),
            "issuer": self._provider.issuer,
            "audience": self._provider.audience,
            "principal_claim": "sub",
            "groups_claim": "groups",
        }

    def valid(self, principal: str) -> Credential:
        return Credential(self._provider.token(principal))

    def flawed(self, principal: str, flaw: Flaw) -> Credential:
        return Credential(self._provider.flawed_token(principal, flaw))

    def revocable(self, principal: str) -> Credential:
        self._withdrawn = self._provider.add_key()
        return Credential(self._provider.token(principal, key=self._withdrawn))

    def revoke(self) -> None:
        assert self._withdrawn is not None
        self._provider.remove_key(self._withdrawn)

    def is_refused_by_tls(self, credential: Credential) -> bool:
        return False


class TokensMethod:
    """Tokens of a file.

    The format has no signatures, issuers and audiences. In their place, tokens have another secret, come from another
    file, or are those of an identity provider.
    """

    kind = "tokens"

    def principal(self, name: str) -> str:
        return name

    def __init__(self, directory: Path, provider: IdentityProvider) -> None:
        self._file = directory / "tokens.yaml"
        self._other_file = directory / "other.yaml"
        self._provider = provider

    def settings(self) -> Mapping[str, Any]:
        return {"kind": "tokens", "file": str(self._file)}

    def valid(self, principal: str) -> Credential:
        return Credential(create_token(self._file, principal))

    def flawed(self, principal: str, flaw: Flaw) -> Credential:
        if flaw is Flaw.WRONG_SIGNATURE:
            token = self.valid(principal).token
            return Credential(token[:-1] + ("b" if token[-1] == "a" else "a"))
        if flaw is Flaw.EXPIRED:
            token = create_token(self._file, principal, "--expires", "1h")
            change_token(self._file, token, expires="2020-01-01T00:00:00Z")
            return Credential(token)
        if flaw is Flaw.WRONG_AUDIENCE:
            return Credential(create_token(self._other_file, principal))
        return Credential(self._provider.flawed_token(principal, flaw))

    def revocable(self, principal: str) -> Credential:
        self._revocable = self.valid(principal)
        return self._revocable

    def revoke(self) -> None:
        change_token(self._file, self._revocable.token)

    def is_refused_by_tls(self, credential: Credential) -> bool:
        return False


class CertificateMethod:
    """Certificates of clients. Flaws that only tokens can have are sent as tokens, without a certificate.

    Attributes:
        client_authorities: The PEM file with the authorities that the gateway accepts.
    """

    kind = "certificate"

    def principal(self, name: str) -> str:
        return name

    def __init__(self, directory: Path, provider: IdentityProvider) -> None:
        self._authority = CertificateAuthority(directory)
        self._withdrawn = CertificateAuthority(directory)
        self._namesake = CertificateAuthority(directory)
        self._stranger = CertificateAuthority(directory, "Another CA")
        self._provider = provider
        self._accepted_by_tls: list[Credential] = []
        self.client_authorities = directory / "clients.crt"
        self._publish(self._authority, self._withdrawn)

    def settings(self) -> Mapping[str, Any]:
        return {"kind": "certificate"}

    def valid(self, principal: str) -> Credential:
        return self._accepted(self._authority.client(principal))

    def flawed(self, principal: str, flaw: Flaw) -> Credential:
        if flaw is Flaw.MALFORMED:
            return self._accepted(self._authority.client(" \t"))
        certificates: Mapping[Flaw, Callable[[], CertificateFiles]] = {
            Flaw.WRONG_SIGNATURE: lambda: self._namesake.client(principal),
            Flaw.WRONG_ISSUER: lambda: self._stranger.client(principal),
            Flaw.EXPIRED: lambda: self._authority.client(principal, valid_from=-2 * DAY, valid_for=-DAY),
            Flaw.NOT_YET_VALID: lambda: self._authority.client(principal, valid_from=DAY),
            Flaw.WRONG_AUDIENCE: lambda: self._authority.client(principal, usage=ExtendedKeyUsageOID.SERVER_AUTH),
        }
        if flaw in certificates:
            return Credential(certificate=certificates[flaw]())
        return Credential(self._provider.flawed_token(principal, flaw))

    def revocable(self, principal: str) -> Credential:
        return Credential(certificate=self._withdrawn.client(principal))

    def revoke(self) -> None:
        self._publish(self._authority)

    def is_refused_by_tls(self, credential: Credential) -> bool:
        return credential not in self._accepted_by_tls

    def _accepted(self, files: CertificateFiles) -> Credential:
        self._accepted_by_tls.append(Credential(certificate=files))
        return self._accepted_by_tls[-1]

    def _publish(self, *authorities: CertificateAuthority) -> None:
        new = self.client_authorities.with_suffix(".new")
        new.write_bytes(b"".join(each.certificate.read_bytes() for each in authorities))
        new.replace(self.client_authorities)


class KubernetesMethod:
    """Tokens of service accounts of a test cluster, which its API server reviews.

    Attributes:
        kubeconfig: The access of the gateway, which may only review tokens.
    """

    kind = "kubernetes"

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._core = CoreV1Api(cluster.client)
        self._namespace = cluster.namespace()
        lodge = cluster.service_account(self._namespace, "lodge")
        lodge.allow_everywhere(
            {"apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"], "verbs": ["create"]}
        )
        self.kubeconfig = lodge.kubeconfig

    def principal(self, name: str) -> str:
        return f"system:serviceaccount:{self._namespace}:{name}"

    def settings(self) -> Mapping[str, Any]:
        return {"kind": "kubernetes", "audiences": [AUDIENCE]}

    def valid(self, principal: str) -> Credential:
        return Credential(self._token(principal))

    def flawed(self, principal: str, flaw: Flaw) -> Credential:
        """Return a token with a flaw, signed with the key of the API server."""
        token = self._token(principal)
        claims = jwt.decode(token, options={"verify_signature": False})
        pem = (self._cluster.directory / "certificates" / "apiserver.key").read_bytes()
        key_id = jwt.get_unverified_header(token)["kid"]
        key = SigningKey("RS256", serialization.load_pem_private_key(pem, None), key_id)
        assert self._review(key.sign(claims)), "a token with the claims of a valid one is valid"
        return Credential(flawed(flaw, claims, key))

    def revocable(self, principal: str) -> Credential:
        secret = self._core.create_namespaced_secret(self._namespace, {"metadata": {"generateName": "revocable-"}})
        self._secret = secret.metadata.name
        bound_to = {"apiVersion": "v1", "kind": "Secret", "name": self._secret, "uid": secret.metadata.uid}
        return Credential(self._token(principal, boundObjectRef=bound_to))

    def revoke(self) -> None:
        self._core.delete_namespaced_secret(self._secret, self._namespace)

    def is_refused_by_tls(self, credential: Credential) -> bool:
        return False

    def _token(self, name: str, **more: Any) -> str:
        self._cluster.service_account(self._namespace, name)
        spec = {"audiences": [AUDIENCE], "expirationSeconds": HOUR_SECONDS, **more}
        answer = self._core.create_namespaced_service_account_token(name, self._namespace, {"spec": spec})
        return str(answer.status.token)

    def _review(self, token: str) -> bool:
        review = {"spec": {"token": token, "audiences": [AUDIENCE]}}
        return bool(AuthenticationV1Api(self._cluster.client).create_token_review(review).status.authenticated)


def create_token(file: Path, principal: str, *options: str) -> str:
    """Add a token to a token file with the command ``lodge token create``, and return the token."""
    output = io.StringIO()
    with redirect_stdout(output):
        status = main(["token", "create", "--file", str(file), "--principal", principal, *options])
    assert status == 0
    return output.getvalue().strip()


def change_token(file: Path, token: str, **changes: str) -> None:
    """Change the entry of a token in a token file. Without changes, remove the entry."""
    digest = hashlib.sha256(token.encode()).hexdigest()
    content = yaml.safe_load(file.read_text())
    entries = content["tokens"]
    assert digest in [entry["sha256"] for entry in entries]
    content["tokens"] = [
        {**entry, **changes} if entry["sha256"] == digest else entry
        for entry in entries
        if changes or entry["sha256"] != digest
    ]
    new = file.with_suffix(".new")
    new.write_text(yaml.safe_dump(content))
    new.chmod(file.stat().st_mode)
    new.replace(file)
