"""Release of sessions at their backends; see the guarantees of :mod:`lodge.backend_sessions`."""

import socket
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest
import structlog
from pyspark.sql.connect.proto import base_pb2

from gateway.connections.backend_credentials import BackendAccess
from lodge.backend_sessions import SILENCE_SECONDS, BackendSessions, release_request
from tests.gateway.connections.tls_terminator import TlsTerminator
from tests.identity.certificates import CertificateAuthority
from tests.records import a_record
from workspace.records import Phase, SessionRecord

SERVICE = "/spark.connect.SparkConnectService/"


def ending_at(backend: str, principal: str = "ada") -> SessionRecord:
    return a_record(principal=principal, client_session_id=str(uuid.uuid4()), backend=backend, phase=Phase.ENDING)


@pytest.fixture
def silent_backend() -> Iterator[str]:
    """A backend that accepts connections and never answers."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        yield f"sc://127.0.0.1:{listening.getsockname()[1]}"


def version_at(record: SessionRecord) -> None:
    """Use the session at its backend.

    Raises:
        grpc.RpcError: If the session has ended, or the call fails.
    """
    request = base_pb2.AnalyzePlanRequest(session_id=record.client_session_id)
    request.user_context.user_id = record.principal
    request.spark_version.SetInParent()
    with grpc.insecure_channel(record.backend.removeprefix("sc://")) as channel:
        channel.unary_unary(f"{SERVICE}AnalyzePlan")(request.SerializeToString(), timeout=60)


@pytest.mark.parametrize("principal", ["ada", "", "ädä", "x" * 127, "y" * 128, "z" * 100_000])
def test_request_equals_that_of_sparks_own_client(principal: str) -> None:
    record = ending_at("sc://backend:15002", principal)
    expected = base_pb2.ReleaseSessionRequest(session_id=record.client_session_id)
    expected.user_context.user_id = record.principal
    assert base_pb2.ReleaseSessionRequest.FromString(release_request(record)) == expected


def test_session_is_released_at_its_backend(spark_server: str) -> None:
    record, other = ending_at(spark_server), ending_at(spark_server)
    for each in (record, other):
        version_at(each)
    with structlog.testing.capture_logs() as logs:
        BackendSessions().release(record)
    assert [log["event"] for log in logs] == ["backend_session_released"]
    with pytest.raises(grpc.RpcError, match=r"INVALID_HANDLE\.SESSION_CLOSED"):
        version_at(record)
    version_at(other)


def test_guarantee_2_unknown_session_is_no_error(spark_server: str) -> None:
    with structlog.testing.capture_logs() as logs:
        BackendSessions().release(ending_at(spark_server))
    assert [log["event"] for log in logs] == ["backend_session_released"]


@pytest.mark.slow
def test_guarantee_1_silent_backend_costs_bounded_time_once(silent_backend: str) -> None:
    now = [0.0]
    backends = BackendSessions(lambda: now[0])
    with structlog.testing.capture_logs() as logs:
        for _ in range(1000):
            backends.release(ending_at(silent_backend))
    assert [log["log_level"] for log in logs] == ["warning"] + ["debug"] * 999, "only the first call waited"
    now[0] = SILENCE_SECONDS
    with structlog.testing.capture_logs() as logs:
        backends.release(ending_at(silent_backend))
    assert [log["log_level"] for log in logs] == ["warning"], "the next call comes after a while"


@pytest.mark.parametrize(
    "backend", ["sc://127.0.0.1:1", "sc://no-such-host.invalid:15002", "nonsense", "sc://host:port"]
)
def test_guarantee_2_unreachable_or_invalid_backend_is_logged(backend: str) -> None:
    with structlog.testing.capture_logs() as logs:
        BackendSessions().release(ending_at(backend))
    assert [log["event"] for log in logs] == ["backend_session_not_released"]
    assert logs[0]["backend"] == backend


class RecordingBackend(grpc.GenericRpcHandler):
    """A backend that records the token of each call."""

    def __init__(self) -> None:
        self.tokens: list[str | bytes | None] = []
        self.address = ""

    def service(self, handler_call_details: Any) -> Any:
        self.tokens.append(dict(handler_call_details.invocation_metadata).get("authorization"))
        return grpc.unary_unary_rpc_method_handler(lambda request, context: b"")


@pytest.fixture
def recording() -> Iterator[RecordingBackend]:
    backend = RecordingBackend()
    server = grpc.server(ThreadPoolExecutor(2))
    server.add_generic_rpc_handlers((backend,))
    backend.address = f"sc://127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    yield backend
    server.stop(None)


def test_release_carries_the_current_token(recording: RecordingBackend, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("first")
    backends = BackendSessions(access=BackendAccess(token), backends=[recording.address])
    backends.release(ending_at(recording.address))
    token.write_text("second")
    backends.release(ending_at(recording.address))
    token.write_text("")
    backends.release(ending_at(recording.address))
    assert recording.tokens == ["Bearer first", "Bearer second", "Bearer second"]


def test_guarantee_3_backend_of_a_forged_record_does_not_get_the_token(
    recording: RecordingBackend, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text("secret")
    backends = BackendSessions(access=BackendAccess(token), backends=["sc://spark:15002"])
    with structlog.testing.capture_logs() as logs:
        backends.release(ending_at(recording.address))
    assert recording.tokens == []
    assert [log["event"] for log in logs] == ["backend_session_not_released"]
    assert "--backend" in logs[0]["reason"]
    assert "secret" not in str(logs)


def test_session_is_released_over_tls(recording: RecordingBackend, tmp_path: Path) -> None:
    authority = CertificateAuthority(tmp_path)
    token = tmp_path / "token"
    token.write_text("secret")
    with TlsTerminator(recording.address, authority.server()) as terminator:
        access = BackendAccess(token, ca=authority.certificate)
        BackendSessions(access=access, backends=[terminator.address]).release(ending_at(terminator.address))
    assert terminator.uses_only_tls
    assert recording.tokens == ["Bearer secret"]
