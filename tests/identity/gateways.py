"""Gateways with authentication, and the credentials that the tests send to them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Self

import grpc
from google.rpc import error_details_pb2, status_pb2

from tests.conftest import LodgeProcess, wait_until
from tests.identity.methods import Credential, MethodUnderTest
from tests.identity.provider import Flaw
from tests.identity.recorder import Recorder
from tests.identity.rpcs import BY_NAME, Metadata, Rpc, new_session_id

REVOCATION_SECONDS = 60
REFUSED = (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.UNAVAILABLE)


@dataclass(frozen=True, slots=True)
class Refusal:
    """The status with which a call failed.

    Attributes:
        code: The gRPC status code.
        condition: The error condition. Empty if the status contains no error details of Spark.
        sql_state: The SQLSTATE.
        text: The text of the status.
    """

    code: grpc.StatusCode
    condition: str
    sql_state: str
    text: str


def refusal_of(error: grpc.RpcError) -> Refusal:
    """Return what a client learns from a failed call."""
    details = next((value for key, value in error.trailing_metadata() or () if key == "grpc-status-details-bin"), b"")
    info = error_details_pb2.ErrorInfo()
    for each in status_pb2.Status.FromString(details).details:
        if each.Is(error_details_pb2.ErrorInfo.DESCRIPTOR):
            each.Unpack(info)
    metadata = info.metadata
    return Refusal(error.code(), metadata.get("errorClass", ""), metadata.get("sqlState", ""), error.details() or "")


@dataclass(frozen=True, slots=True)
class Credentials:
    """The credentials of the tests with one method.

    Attributes:
        valid: Valid ones, by principal.
        flawed: Invalid ones of the principal ``ada``.
        revocable: A valid one of the principal ``ada`` that a test revokes.
    """

    valid: Mapping[str, Credential]
    flawed: Mapping[Flaw, Credential]
    revocable: Credential

    @classmethod
    def issue(cls, method: MethodUnderTest) -> Self:
        """Issue all credentials. A gateway that starts afterwards knows them."""
        return cls(
            {principal: method.valid(principal) for principal in ("ada", "mallory")},
            {flaw: method.flawed("ada", flaw) for flaw in Flaw if flaw is not Flaw.REVOKED},
            method.revocable("ada"),
        )


@dataclass
class GuardedGateway:
    """A gateway with one authentication method, in front of a recorder.

    Attributes:
        method: The method.
        lodge: The process.
        target: The address ``host:port`` for clients.
        server_authority: The authority of the gateway's certificate. None without TLS.
        recorder: What reaches the backend.
        audit_log: The file of the audit log.
        credentials: The credentials of the tests.
    """

    method: MethodUnderTest
    lodge: LodgeProcess
    target: str
    server_authority: Path | None
    recorder: Recorder
    audit_log: Path
    credentials: Credentials
    _channels: dict[Path | None, grpc.Channel] = field(default_factory=dict)
    _is_revoked: bool = False
    _revoked_session: str = field(default_factory=new_session_id)

    def valid(self, name: str) -> Credential:
        return self.credentials.valid[name]

    def principal(self, name: str) -> str:
        return self.method.principal(name)

    def flawed(self, flaw: Flaw) -> Credential:
        """Return a credential of the principal ``ada`` that the gateway must refuse."""
        if flaw is Flaw.REVOKED:
            self._revoke()
            return self.credentials.revocable
        return self.credentials.flawed[flaw]

    def _revoke(self) -> None:
        """Revoke a credential that the gateway has accepted, and wait until it refuses the credential."""
        if self._is_revoked:
            return
        self._is_revoked = True
        assert self._accepts(self.credentials.revocable)
        self.method.revoke()
        wait_until(
            lambda: not self._accepts(self.credentials.revocable),
            "the gateway refuses the credential",
            REVOCATION_SECONDS,
        )

    def _accepts(self, credential: Credential) -> bool:
        self.reconnect()
        config = BY_NAME["Config"]
        try:
            self.call(config, credential, config.requests(self._revoked_session))
        except grpc.RpcError as error:
            assert error.code() in REFUSED, error
            return False
        return True

    def channel(self, credential: Credential) -> grpc.Channel:
        """Return a channel with the certificate of a credential."""
        key = credential.certificate.certificate if credential.certificate else None
        if key not in self._channels:
            self._channels[key] = credential.channel(self.target, self.server_authority)
        return self._channels[key]

    def reconnect(self) -> None:
        """Close all connections, so that the next call makes a new one."""
        while self._channels:
            self._channels.popitem()[1].close()

    def call(
        self, rpc: Rpc, credential: Credential, requests: Sequence[bytes], metadata: Metadata = ()
    ) -> Sequence[bytes]:
        """Call an RPC with a credential.

        Raises:
            grpc.RpcError: If the call fails.
        """
        return rpc.call(self.channel(credential), requests, [*credential.metadata(), *metadata])

    def open_session(self, name: str) -> str:
        """Open a session of a principal and return its client session id."""
        session_id, config = new_session_id(), BY_NAME["Config"]
        self.call(config, self.valid(name), config.requests(session_id))
        return session_id

    @cached_property
    def target_session(self) -> str:
        """A session of the principal ``ada`` that exists."""
        return self.open_session("ada")

    @property
    def secrets(self) -> list[str]:
        """All tokens that were sent to the gateway."""
        found = self.credentials
        everything = (*found.valid.values(), *found.flawed.values(), found.revocable)
        return [each.token for each in everything if each.token]

    def close(self) -> None:
        self.reconnect()
